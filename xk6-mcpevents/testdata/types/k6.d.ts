// As much of k6's own types as the examples use; the whole is @types/k6.
declare const __ENV: { [name: string]: string };
declare const __VU: number;
declare const __ITER: number;
declare const console: { log(...values: unknown[]): void; warn(...values: unknown[]): void; error(...values: unknown[]): void };
declare function open(path: string): string;

declare module "k6" {
  export function check<T>(value: T, sets: { [name: string]: (value: T) => boolean }, tags?: { [name: string]: string }): boolean;
  export function fail(message?: string): never;
  export function group<T>(name: string, body: () => T): T;
  export function sleep(seconds: number): void;
}

declare module "k6/execution" {
  const exec: {
    scenario: { name: string; executor: string; iterationInInstance: number; iterationInTest: number };
    vu: { idInInstance: number; idInTest: number; iterationInInstance: number; iterationInScenario: number };
    instance: { vusActive: number };
    test: { abort(reason?: string): void; options: { [name: string]: unknown } };
  };
  export default exec;
}

declare module "k6/metrics" {
  class Metric {
    constructor(name: string, isTime?: boolean);
    add(value: number | boolean, tags?: { [name: string]: string }): void;
  }
  export class Counter extends Metric {}
  export class Gauge extends Metric {}
  export class Rate extends Metric {}
  export class Trend extends Metric {}
}
