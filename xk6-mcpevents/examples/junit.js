// The smoke test with a JUnit report, for CI: -e JUNIT=path says where it goes.
import { junit, lines } from './lib/junit.js';

export { default, options } from './smoke.js';

export const handleSummary = (data) => ({ [__ENV.JUNIT || 'junit.xml']: junit(data, 'smoke'), stdout: lines(data) });
