/**
 * k6/x/mcpevents: event delivery of MCP servers, measured in k6 scripts.
 *
 * Counts are those of eventmeter's ledger: every event that an Upstream fired is
 * followed to each subscription that it was owed to.
 */

/** A time: "1.5s", "200ms", "1m", or a number of milliseconds. */
export type Duration = string | number;

/** A JSON value. */
export type JSONValue = null | boolean | number | string | JSONValue[] | { [key: string]: JSONValue };

/** A JSON object. */
export type JSONObject = { [key: string]: JSONValue };

export interface ClientOptions {
  /** Bearer token. None: no Authorization header. */
  token?: string;
  /** Bearer tokens, one per principal: subscription i is principal i modulo their number. Instead of token. */
  tokens?: string[];
  /** Header fields that are added to every request. */
  headers?: { [name: string]: string };
  /** Certificates, PEM, that are trusted for https instead of the system's; see k6's open(). k6's options for TLS and for names and addresses hold as well. */
  ca?: string;
  /** Protocol era: modern (2026-07-28) or legacy (2025-03-26 to 2025-11-25); auto tries modern first. Default auto. */
  era?: "auto" | "modern" | "legacy";
  /** Spelling of the MCP Events draft. Default newest. */
  revision?: "sep-3415" | "sketch" | "longpoll" | "older";
}

/** What all ways to subscribe have in common. */
export interface CommonOptions {
  /** How many are opened together, 1 to 100,000. Default 1. A process has room for 1,000,000. */
  subscriptions?: number;
  /** Tag "lane" of the metrics. Default: the mode. */
  lane?: string;
  /** Which Upstream is listened to: what one of the same topic fires is owed. Default: the event type. A process has at most 1,024; one more ends the run. */
  topic?: string;
  /** HTTP version: over TLS "1.1" or "2"; in plain text "1.1" or "h2c". Default "1.1". */
  http?: "1.1" | "2" | "h2c";
  /** How long close() waits for what is missing; what is missing then was lost. Pollers to which something is missing poll once more, for up to a minute longer. Default 2s; of resumable() 30s; of watchLists() 10s, and it has to be longer than the time to live. */
  settle?: Duration;
  /** Bounds the opening. Default 30s. */
  readyTimeout?: Duration;
  /** Only every so many-th latency becomes a sample of mcp_event_latency. Counts are never sampled. 1 to 1,000,000, default 1. */
  sampleEvery?: number;
  /** Outlives setup() or the iteration under this name: kept(name) finds it again, in any VU of the process. */
  keep?: string;
}

/** Of subscriptions to an event type. */
export interface EventOptions extends CommonOptions {
  /** Arguments of the subscription; {sub} in a text is the number of the subscription, from 0. */
  arguments?: JSONObject;
  /** Asks for a replay of events up to that old. Not in smithery. */
  maxAge?: Duration;
  /** Has handlers of "event" given the message, as text. */
  payload?: boolean;
  /** Also hears of changes of the event types, and lists them again at each; see figures(). Of system events, and one of a Client at a time. Default false. */
  listen?: boolean;
  /** First cursor of each subscription. Of system events. Default: none, which begins now. */
  cursor?: string;
}

export interface StreamOptions extends EventOptions {
  /** The same as subscriptions. */
  streams?: number;
  /** events: the MCP Events draft; sep-1803: events as resources, in sessions. Default events. */
  system?: "events" | "sep-1803";
  /** A stream that is silent for more than twice as long is dead, and opened again. Default 30s. */
  heartbeat?: Duration;
  /** How long a stream lives until it is cut as a lost network would, and for how long. Default: it is not. */
  cutEvery?: Duration;
  cutFor?: Duration;
  /** Of sep-1803: subscriptions that share a session, 1 to 100,000. Default 1. */
  perSession?: number;
  /** Of sep-1803: a stream that is opened again asks for what came meanwhile. Default true. */
  redelivery?: boolean;
}

export interface PollOptions extends EventOptions {
  system?: "events";
  /** Least wait between two polls, whatever the server says; 0 = none. Default 1s. */
  minInterval?: Duration;
  /** Long-poll time that is asked for. Default: the server answers at once. */
  longPoll?: Duration;
  /** Most events of one answer, 1 to 1,000,000. Default: the server's own. */
  maxEvents?: number;
}

/** How a share of the events, or of the challenges, is answered. At most one of status, hang and reset is given. */
export interface AnswerOptions {
  /** 200 to 299 takes an event; any other refuses it, 300 to 399 by a redirect. Default 200; for a challenge, a wrong echo. */
  status?: number;
  /** No answer comes. */
  hang?: boolean;
  /** The connection is closed without an answer. */
  reset?: boolean;
  /** It is for challenges, by subscription, instead of events. */
  challenge?: boolean;
  /** Share of the events or subscriptions, 0 to 1. Default: what other answers leave. */
  share?: number;
  /** Copies or challenges that are refused. Default 1. */
  times?: number;
  /** Wait before the answer. */
  delay?: Duration;
  /** With it, the wait is drawn between delay and this. */
  delayTo?: Duration;
  /** Header field Retry-After. */
  retryAfter?: Duration;
}

export interface SubscribeOptions extends EventOptions {
  /** events: the MCP Events draft; smithery: Smithery's triggers; sep-1803: events as resources. Default events. */
  system?: "events" | "smithery" | "sep-1803";
  /** Where deliveries are received. Default: a listener of its own on a free port of 127.0.0.1. */
  sink?: WebhookSink;
  /** Lifetime that is asked for. Default: the server's. Not in smithery. */
  ttl?: Duration;
  /** Share of the grant after which it is refreshed, 0.1 to 0.95. Default 0.75. */
  refreshAt?: number;
  /** Refreshes between two new secrets, 0 to 1,000,000. Default 0: the secret stays. */
  rotateEvery?: number;
  /** How shares of the events and challenges are answered. Default: 200, at once. */
  answer?: AnswerOptions[];
  /** Of events: the requests carry no token, and the target must refuse the subscriptions; figures() counts those that it refuses and accepts. Default false. */
  anonymous?: boolean;
  /** Of sep-1803: the type of secret that is wished for. Default: no wish. */
  secret?: "raw" | "standard" | "none";
  /** Of sep-1803: a delivery that comes before its secret waits for it, or is answered 503. Default hold. */
  early?: "hold" | "refuse";
  /** Of smithery: the name under which arguments are sent. Default params. */
  argumentsKey?: "params" | "arguments";
  /** Of smithery: each call carries an id of the client's own making. Default false. */
  clientID?: boolean;
}

export interface WatchListsOptions extends CommonOptions {
  /** The same as subscriptions: clients that use the list. */
  clients?: number;
  /** URI of the resource, for watchLists("resource"). */
  uri?: string;
  /** Uses per second of each client. Default 10. */
  use?: number;
  /** false fetches with each use: the baseline. Default true. */
  cache?: boolean;
  /** Opens a stream for list_changed, which makes copies stale at once. Default false. */
  notifications?: boolean;
  /** Share of the time to live, 0 to 1, by which copies may count as stale early. Default 0.1. */
  jitter?: number;
  /** Uses a stale copy when a new one cannot be had. Default true. */
  staleOnError?: boolean;
  /** Clients use each other's public copies. Default false. */
  shared?: boolean;
  /** Fetches copies that were used anew before they are stale. Default false. */
  background?: boolean;
}

export interface ResumableOptions extends CommonOptions {
  /** The same as subscriptions: requests at a time. */
  requests?: number;
  /** Further arguments of the tool. */
  arguments?: JSONObject;
  /** Steps that the tool takes, 1 to 100,000, and the time of each. Defaults 20, 200ms. */
  steps?: number;
  step?: Duration;
  /** A log message after so many steps, 0 to 100,000. Default 0: none. */
  logEvery?: number;
  /** maxWait that is asked for; 0 = none is asked for. Default 10s. */
  maxWait?: Duration;
  /** The server is to disconnect after so many messages, 0 to 1,000,000. Default 0: it does not. */
  hangUp?: number;
  /** one: each request is cut when it is `at` old; all: all are, `at` after the opening and each `every`; share: a `share` of them. Default one. */
  disconnect?: "none" | "one" | "share" | "all";
  share?: number;
  /** Default of at: 1s. */
  at?: Duration;
  every?: Duration;
  /** How long a client stays away. Default 1s. */
  away?: Duration;
  /** Time between two requests/getStatus while away. Default: none are sent. */
  statusEvery?: Duration;
  /** Shares, 0 to 1: of requests that stay away for too long; of resumes by two at once; of resumes after wrong ones. Default 0. */
  expire?: number;
  double?: number;
  wrong?: number;
  /** How much longer than maxWait a policy may hold. Default 1s. */
  tolerance?: Duration;
}

export interface ListOptions {
  /** Bounds the call, all pages of it. Default 30s. */
  timeout?: Duration;
}

/** One list, all pages of it. */
export interface Listing {
  /** JSON-RPC method, such as tools/list. */
  method: string;
  entries: JSONObject[];
  pages: number;
  /** Milliseconds from the first request until the last answer. */
  duration: number;
  /** Bytes of request and answer bodies. */
  bytes: number;
  /** Milliseconds that the first page may be kept; null where it was not said. */
  ttl: number | null;
  /** "" where it was not said, which means private. */
  cacheScope: "public" | "private" | "";
}

/** One MCP endpoint, as one principal or several. */
export class Client {
  constructor(url: string, options?: ClientOptions);
  /** Opens push streams. Resolves when all are active; rejects when one could not be opened. */
  stream(event: string, options?: StreamOptions): Promise<Subscription>;
  /** Begins to poll. */
  poll(event: string, options?: PollOptions): Promise<Subscription>;
  /** Registers webhooks. */
  subscribe(event: string, options?: SubscribeOptions): Promise<Subscription>;
  /** Has clients use a list and keep it for its time to live (SEP-2549). */
  watchLists(list: "tools" | "prompts" | "resources" | "templates" | "resource", options?: WatchListsOptions): Promise<Subscription>;
  /** Calls a slow tool, loses the connection and resumes, again and again (SEP-975). Default tool: work. */
  resumable(tool?: string | null, options?: ResumableOptions): Promise<Subscription>;
  /** Fetches a list once. Its time is mcp_list_duration. */
  list(what: "events" | "triggers" | "tools" | "prompts" | "resources" | "templates", options?: ListOptions): Promise<Listing>;
}

export interface ReceivedOptions {
  /** So many different events for each subscription, 1 to 1,000,000,000. Default: all that were fired before the call. */
  events?: number;
  /** Default 30s. */
  timeout?: Duration;
}

/**
 * Counts of pairs of a subscription and an event. expected = delivered + lost + lostAnnounced + lostOrderUnknown + lostUndeliverable + lostRefused +
 * lostSuspended, once the subscription is closed.
 */
export interface Totals {
  expected: number;
  delivered: number;
  /** Silent loss. */
  lost: number;
  lostAnnounced: number;
  /** Lost, and nobody can tell whether the target announced it: it was fired together with others. */
  lostOrderUnknown: number;
  /** Connections of the target failed at the webhook listener here. */
  lostUndeliverable: number;
  /** Every copy that came was refused here, as a wrong signature is. */
  lostRefused: number;
  /** Published while the target, by its own word, had suspended delivery. */
  lostSuspended: number;
  duplicates: number;
  outOfOrder: number;
  /** Deliveries that were owed to nobody. */
  unexpected: number;
  /** Deliveries of what was fired while the subscription was being opened. */
  inFlight: number;
  /** Missing, but fired too shortly before the end. */
  excused: number;
  /** Delivered although firing failed or timed out. */
  recovered: number;
  /** Delivered because a replay was asked for. */
  replayed: number;
  /** Events that no Upstream of this process fired. */
  unprobed: number;
  /** Deliveries whose event is not answered yet. */
  undecided: number;
  refreshRequests: number;
  refreshBytes: number;
  /** Subscriptions that are open. */
  open: number;
  /** What handlers were too slow for, of every kind: 65536 may wait. */
  unhandled: number;
}

export interface Received {
  /** false when the time was over before. */
  complete: boolean;
  delivered: number;
  duplicates: number;
  outOfOrder: number;
  unexpected: number;
}

/** Of a histogram; milliseconds. */
export interface Timing {
  count: number;
  min: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/** A system's own figures; docs/sep-975.md and docs/sep-2549.md define them. */
export interface Figures {
  values: { [name: string]: number };
  timings: { [name: string]: Timing };
}

/** One copy of one event. */
export interface EventInfo {
  /** Number of the subscription, from 0. */
  subscription: number;
  /** Number of the event at its Upstream's topic, from 1; 0 of an event that no Upstream fired. */
  seq: number;
  /** Milliseconds since it should have been fired. */
  latency: number;
  duplicate: boolean;
  bytes: number;
  /** The event, or the notification that holds it, as JSON text. Only with the option payload. */
  message?: string;
}

/** The target announced that events are missing. */
export interface GapInfo {
  subscription: number;
  detail: string;
}

/** The target ended a subscription, or it could not be kept. */
export interface ClosedInfo {
  subscription: number;
  reason: string;
}

/** Something went wrong that does not end the subscription. */
export interface ErrorInfo {
  subscription: number;
  kind: string;
  message: string;
}

/** Subscriptions that were opened together. The iteration lasts until they are closed, unless they are kept. */
export class Subscription {
  private constructor();
  /** Adds a handler, which is called on the event loop. What it throws fails the iteration. */
  on(name: "event", handler: (e: EventInfo) => void): void;
  on(name: "gap", handler: (g: GapInfo) => void): void;
  on(name: "closed", handler: (c: ClosedInfo) => void): void;
  on(name: "error", handler: (e: ErrorInfo) => void): void;
  /** Waits until each subscription has its events, or the time is over. It never rejects. */
  received(options?: ReceivedOptions): Promise<Received>;
  /** Counts so far. What is on its way counts as expected and lost. */
  stats(): Totals;
  /** The system's own figures so far; empty where it has none. */
  figures(): Figures;
  /** Waits for what is missing (settle), ends the subscriptions and gives the final counts. The same ones again when called again. */
  close(): Promise<Totals>;
  /** Certificate authority of the webhook listener, PEM; "" without one. */
  certPEM(): string;
}

export interface WebhookSinkOptions {
  /** host:port. Default: a free port of 127.0.0.1. */
  listen?: string;
  /** https address, without a path, under which the target reaches the listener. Default: the listener's own. */
  callback?: string;
  /** Certificate (chain) and key, PEM; see k6's open(). Default: one made for the run. */
  cert?: string;
  key?: string;
}

/** A listener for webhooks. The VUs of a process share the one with the same options; it lives until the test ends. */
export class WebhookSink {
  constructor(options?: WebhookSinkOptions);
  /** https address, without a path, that targets are given. */
  url(): string;
  /** Certificate authority that targets have to trust, PEM; "" where a certificate was given. */
  certPEM(): string;
}

export interface UpstreamOptions {
  /** Event type. */
  event: string;
  /** Subscriptions with the same topic are owed what is fired. Default: the event type. */
  topic?: string;
  /** Admin listener of a reference target (eventmeter serve). One of admin, url, tool and feed must be given. */
  admin?: string;
  /** A request to this URL makes the event happen; {probe} and {seq} are filled in. */
  url?: string;
  /** With url. Default POST. */
  method?: string;
  /** With url. */
  headers?: { [name: string]: string };
  /** A tool of the target makes the event happen; data are its arguments. */
  tool?: string;
  /** With tool: who calls it. */
  client?: Client;
  /** host:port of a change feed that the target polls. The VUs of a process share it. */
  feed?: string;
  /** JSON that is sent, with {probe} in a text, and {seq} if wanted. Default {"text": "{probe}"}. */
  data?: JSONObject;
  /** Bounds one event. Default 5s. Not with feed. */
  timeout?: Duration;
  /** Most events under way at once, 1 to 10,000. Default 64. */
  workers?: number;
}

export interface FireOptions {
  /** How many, 1 to 10,000,000. Default 1. */
  count?: number;
  /** Per second, in an open loop: what cannot be fired in time is dropped. Default: one after the other. */
  rate?: number;
}

export interface Fired {
  fired: number;
  accepted: number;
  /** Timed out or broke off: whether it was taken is not known. */
  uncertain: number;
  refused: number;
  dropped: number;
}

/** What makes events happen. */
export class Upstream {
  constructor(options: UpstreamOptions);
  /** Fires, and resolves when each event is answered. A number is the count. Why events were refused is said once, in the log. */
  fire(options?: number | FireOptions): Promise<Fired>;
}

/** Subscriptions that were opened with the option keep. They must be open, or have been, in this process. */
export function kept(name: string): Subscription;
