/**
 * k6/x/mcpevents: event delivery of MCP servers, measured in k6 scripts.
 *
 * The counts come from eventmeter's ledger, which follows every event that an
 * Upstream publishes to each subscription that it is owed to.
 */

/** A unit of times. */
type Unit = "ns" | "us" | "ms" | "s" | "m" | "h";

/** A time: "1.5s", "200ms", "1m30s", or a number of milliseconds. In a variable of its own, a text needs "as const", or options a type such as StreamOptions. */
export type Duration = number | "0" | `${number}${Unit}` | `${number}${"h" | "m"}${number}${"m" | "s"}` | `${number}h${number}m${number}s`;

/** T with at most one of the keys K. */
type AtMostOne<T, K extends keyof T> = T & { [P in K]: { [Q in Exclude<K, P>]?: never } }[K];

/** T with exactly one of the keys K. */
type ExactlyOne<T, K extends keyof T> = T & { [P in K]: { [Q in P]-?: T[Q] } & { [Q in Exclude<K, P>]?: never } }[K];

/** A JSON value. */
export type JSONValue = null | boolean | number | string | JSONValue[] | { [key: string]: JSONValue };

/** A JSON object. */
export type JSONObject = { [key: string]: JSONValue };

/** Options of a Client: one of token, tokens and oauth, or none. */
export type ClientOptions = AtMostOne<AllClientOptions, "token" | "tokens" | "oauth">;

export interface AllClientOptions {
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
  /** Protocol version that is requested and that the target must support, such as "2025-06-18"; it decides the era. Default: the newest of the era. */
  version?: string;
  /** Revision of MCP Events that is sent; all are read. Default sep-3415. */
  revision?: "sep-3415" | "sketch" | "longpoll" | "older";
  /** Access tokens that expire, in place of token and tokens. */
  oauth?: OAuthOptions;
}

/** How principals get access tokens that expire. Each is a client of an issuer, and each Client of a script gets tokens of its own. */
export interface OAuthOptions {
  /** Client id; {principal} in it is the number of the principal, from 0. */
  clientId: string;
  /** Secret of all clients. */
  secret: string;
  /** clientCredentials: every token is requested with the client's credentials; refreshToken: every token but the first with the refresh token that came with the previous one. Default clientCredentials. */
  grant?: "clientCredentials" | "refreshToken";
  /** Number of principals: subscription i is principal i modulo their number. 1 to 200,000, default 1. */
  principals?: number;
  /** Scopes to request. */
  scopes?: string[];
  /** Token endpoint; https, except on this machine. Default: it is discovered from the target. */
  tokenURL?: string;
  /** How clients authenticate at tokenURL. Default basic. */
  auth?: "basic" | "form";
  /** Share of a token's life, 0.01 to 1, after which it is renewed before it is used again; 1 = it is used until the target refuses it. Default 0.8. */
  refreshAt?: number;
  /** Bounds one attempt to get a token. Default 30s. */
  timeout?: Duration;
}

/** Options of all methods that subscribe. */
export interface CommonOptions {
  /** Number of subscriptions opened together, 1 to 100,000. Default 1. A process has room for 1,000,000. */
  subscriptions?: number;
  /** Tag "lane" of the metrics. Default: the mode. */
  lane?: string;
  /** Topic of the subscriptions: they are owed the events of every Upstream with the same topic. Default: the event type. A process has at most 1,024 topics; one more ends the run. */
  topic?: string;
  /** HTTP version: over TLS "1.1" or "2"; in plain text "1.1" or "h2c". Default "1.1". */
  http?: "1.1" | "2" | "h2c";
  /** How long close() waits for missing events; events still missing then are lost. Pollers with missing events poll once more, for up to a minute longer. Default 2s; resumable() 30s; watchLists() 10s, where it must be longer than the time to live. */
  settle?: Duration;
  /** Longest time until all subscriptions are active. Default 30s. */
  readyTimeout?: Duration;
  /** Only every Nth latency becomes a sample of mcp_event_latency. Counts are never sampled. 1 to 1,000,000, default 1. */
  sampleEvery?: number;
  /** Keeps the subscriptions open after setup() or the iteration, under this name: kept(name) returns them in any VU of the process. */
  keep?: string;
  /** Tags of all samples of these subscriptions. system, mode, event, lane, level and row are taken. */
  tags?: { [name: string]: string };
}

/** Options of subscriptions to an event type. */
export interface EventOptions extends CommonOptions {
  /** Arguments of the subscription; {sub} in a text is the number of the subscription, from 0. */
  arguments?: JSONObject;
  /** Requests a replay of events up to this age. Not in smithery. */
  maxAge?: Duration;
  /** Gives handlers of "event" the message, as text. */
  payload?: boolean;
  /** Also receives changes of the event types, and lists the types again after each; see figures(). System events only, and one group of a Client at a time. Default false. */
  listen?: boolean;
  /** First cursor of each subscription. System events only. Default: none, which begins with the next event. */
  cursor?: string;
}

export interface StreamOptions extends EventOptions {
  /** The same as subscriptions. */
  streams?: number;
  /** events: the MCP Events draft; sep-1803: events as resources, in sessions. Default events. */
  system?: "events" | "sep-1803";
  /** Heartbeat interval of the target. A stream without data for more than twice as long is dead, and is opened again. Default 30s. */
  heartbeat?: Duration;
  /** Age at which a stream is cut, as by a lost network, and how long it stays closed. Default: streams are not cut. */
  cutEvery?: Duration;
  cutFor?: Duration;
  /** System events only: cuts all streams of the call at once, this long after the call; cutFor and a random wait later they are opened again. Default: they are not cut together. */
  cutAt?: Duration;
  /** System events only: a share of the streams stops reading for this long, once all are open. Default: no stream; all streams, if only stallFor is given. */
  stallFor?: Duration;
  stallShare?: number;
  /** Of sep-1803: subscriptions that share a session, 1 to 100,000. Default 1. */
  perSession?: number;
  /** Of sep-1803: a stream that is opened again requests the missed events. Default true. */
  redelivery?: boolean;
}

export interface PollOptions extends EventOptions {
  system?: "events";
  /** Shortest wait between two polls; a longer one requested by the server takes precedence. 0 = none. Default 1s. */
  minInterval?: Duration;
  /** Requested long-poll time. Default: the server answers at once. */
  longPoll?: Duration;
  /** Most events of one answer, 1 to 1,000,000. Default: the server's own. */
  maxEvents?: number;
}

/** How a share of the events, or of the challenges, is answered. Give at most one of status, hang and reset. */
export interface AnswerOptions {
  /** HTTP status. 200 to 299 accepts an event; any other refuses it, 300 to 399 by a redirect. Default 200; for a challenge, a wrong echo. */
  status?: number;
  /** Never answers. */
  hang?: boolean;
  /** Closes the connection without an answer. */
  reset?: boolean;
  /** Applies to challenges, by subscription, instead of events. */
  challenge?: boolean;
  /** Share of the events or subscriptions, 0 to 1. Default: what other answers leave. */
  share?: number;
  /** Number of copies of an event, or of challenges, that are refused. Default 1. */
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
  /** Of events: the client that is imitated, which sets defaults of the options below (docs/clients.md). Assumptions about it are logged. Default generic. */
  client?: "generic" | "chatgpt" | "ai-sdk";
  /** Requested lifetime; "none" requests no expiry. Default "default": the server's. Not in smithery. */
  ttl?: Duration | "none" | "default";
  /** Share of the granted time after which a refresh is sent, 0.1 to 0.95. Default 0.75. */
  refreshAt?: number;
  /** Largest share of the granted time by which a refresh is sent earlier, at random for each; at most refreshAt - 0.05. Default 0.05. */
  refreshJitter?: number;
  /** Refreshes between two new secrets, 0 to 1,000,000. Default 0: the secret stays. */
  rotateEvery?: number;
  /** How shares of the events and challenges are answered. Default: 200, at once. */
  answer?: AnswerOptions[];
  /** One callback for all these subscriptions, routed by X-MCP-Subscription-Id. Those of one principal must differ in their arguments. Default false. */
  shareUrl?: boolean;
  /** Of events: the target's operator allows the callback, so that deliveries need neither a challenge nor the receiver document before them. Default false. */
  proven?: boolean;
  /** Of events: what a delivery must have to be accepted: eventId (webhook-id is the event's id), zone (the timestamp has one), name (of the event type). Default: nothing. */
  require?: string[];
  /** Of events: what happens to a delivery while the answer to a subscribe or refresh is awaited; refuse answers 503. Default accept. */
  pending?: "accept" | "refuse";
  /** Of events: what happens to a delivery after the granted time; refuse answers 410. Default accept. */
  expired?: "accept" | "refuse";
  /** Largest body in bytes, at least 1024; a larger one is answered 413. Default 278528. */
  bodyLimit?: number;
  /** Of events: share of the subscriptions, 0 to 1, that end without unsubscribing. Default 0. */
  silent?: number;
  /** Of events: sends delivery.mode with events/unsubscribe. Default false. */
  unsubscribeMode?: boolean;
  /** Which secret is accepted while it changes. Default both. */
  secrets?: "both" | "early" | "late";
  /** How long the old secret is accepted. Default 5m. */
  oldSecret?: Duration;
  /** A delivery with an invalid signature is refused (strict), or accepted and reported. Default strict. */
  verify?: "strict" | "report";
  /** Of events: the requests carry no token, and the target must refuse the subscriptions; figures() counts those that it refuses and accepts. Default false. */
  anonymous?: boolean;
  /** Of sep-1803: the requested type of secret. Default: none is requested. */
  secret?: "raw" | "standard" | "none";
  /** Of sep-1803: a delivery that comes before its secret waits for it, or is answered 503. Default hold. */
  early?: "hold" | "refuse";
  /** Of smithery: the name under which arguments are sent. Default params. */
  argumentsKey?: "params" | "arguments";
  /** Of smithery: each call carries an id made by the client. Default false. */
  clientID?: boolean;
}

export interface WatchListsOptions extends CommonOptions {
  /** The same as subscriptions: clients that use the list. */
  clients?: number;
  /** URI of the resource, for watchLists("resource"). */
  uri?: string;
  /** Uses per second of each client. Default 10. */
  use?: number;
  /** Whether copies are kept; false fetches with each use, as a baseline. Default true. */
  cache?: boolean;
  /** Opens a stream for list_changed, which makes copies stale at once. Default false. */
  notifications?: boolean;
  /** Share of the time to live, 0 to 1, by which copies may count as stale early. Default 0.1. */
  jitter?: number;
  /** Uses a stale copy if a fetch fails. Default true. */
  staleOnError?: boolean;
  /** Clients use each other's public copies. Default false. */
  shared?: boolean;
  /** Fetches copies in use again before they become stale. Default false. */
  background?: boolean;
}

export interface ResumableOptions extends CommonOptions {
  /** The same as subscriptions: concurrent requests. */
  requests?: number;
  /** token: SEP-975; lastEventId: the id of the last event, in a session of the base protocol, which has no maxWait, statusEvery and expire. Default token. */
  via?: "token" | "lastEventId";
  /** Further arguments of the tool. */
  arguments?: JSONObject;
  /** Number of steps of the tool, 1 to 100,000, and the time of each. Defaults 20, 200ms. */
  steps?: number;
  step?: Duration;
  /** Steps between two log messages, 0 to 100,000. Default 0: no log messages. */
  logEvery?: number;
  /** Requested maxWait; 0 = none is requested. Default 10s. */
  maxWait?: Duration;
  /** Number of messages after which the server disconnects, 0 to 1,000,000. Default 0: never. */
  hangUp?: number;
  /** none; one: each request is cut at the age `at`; all: all requests are cut together, `at` after the opening and then at each `every`; share: as all, but only a `share` of the requests. Default one. */
  disconnect?: "none" | "one" | "share" | "all";
  share?: number;
  /** Default of at: 1s. */
  at?: Duration;
  every?: Duration;
  /** How long a client stays disconnected. Default 1s. */
  away?: Duration;
  /** Time between two requests/getStatus while disconnected. Default: none are sent. */
  statusEvery?: Duration;
  /** Shares, 0 to 1: of requests that resume too late (expire), of resumes by two clients at once (double), and of resumes after an invalid one (wrong). Default 0. */
  expire?: number;
  double?: number;
  wrong?: number;
  /** How much longer than maxWait a policy may last. Default 1s. */
  tolerance?: Duration;
}

export interface ListOptions {
  /** Longest time of the call, with all pages. Default 30s. */
  timeout?: Duration;
  /** Tags of all samples of the call. system, mode, event and lane are taken. */
  tags?: { [name: string]: string };
}

/**
 * An error of this module. Errors of methods that return a promise come by the promise; constructors and other methods throw them.
 */
export interface Failure {
  message: string;
  /** option: a mistake of the script; limit: this process has no room; timeout: the time of an option such as readyTimeout was over; interrupted: the iteration ended before; unreachable, auth, notOffered, invalid, throttled, protocol and server: what the target did; failed: anything else. */
  code: "option" | "limit" | "timeout" | "interrupted" | "unreachable" | "auth" | "notOffered" | "invalid" | "throttled" | "protocol" | "server" | "failed";
}

/** One list with all its pages. */
export interface Listing {
  /** JSON-RPC method, such as tools/list. */
  method: string;
  entries: JSONObject[];
  pages: number;
  /** Milliseconds from the first request until the last answer. */
  duration: number;
  /** Bytes of request and answer bodies. */
  bytes: number;
  /** Time to live of the first page in milliseconds; null if the target gave none. */
  ttl: number | null;
  /** "" if the target gave none, which means private. */
  cacheScope: "public" | "private" | "";
}

/** One MCP endpoint, used by one principal or several. */
export class Client {
  constructor(url: string, options?: ClientOptions);
  /** Opens push streams. Resolves when all are active; rejects when one could not be opened. */
  stream(event: string, options?: StreamOptions): Promise<Subscription>;
  /** Starts pollers. Resolves when all have their first cursor; rejects when one could not get it. */
  poll(event: string, options?: PollOptions): Promise<Subscription>;
  /** Registers webhooks. Resolves when all are active; rejects when one could not be opened. */
  subscribe(event: string, options?: SubscribeOptions): Promise<Subscription>;
  /** Lets clients use a list and keep it for its time to live (SEP-2549). Resolves when all have their first copy. */
  watchLists(list: "tools" | "prompts" | "resources" | "templates" | "resource", options?: WatchListsOptions): Promise<Subscription>;
  /** Repeatedly calls a slow tool, loses the connection and resumes (SEP-975). Default tool: work. */
  resumable(tool?: string | null, options?: ResumableOptions): Promise<Subscription>;
  /** Fetches a list once. The time goes to mcp_list_duration. */
  list(what: "events" | "triggers" | "tools" | "prompts" | "resources" | "templates", options?: ListOptions): Promise<Listing>;
}

export interface ReceivedOptions {
  /** Number of different events that each subscription must receive, 1 to 1,000,000,000. Default: all events published before the call. */
  events?: number;
  /** Longest wait. Default 30s. */
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
  /** Lost, and possibly announced by the target: the event was published at the same time as others, so their order is unknown. */
  lostOrderUnknown: number;
  /** Lost because connections of the target failed at this side's webhook listener. */
  lostUndeliverable: number;
  /** Lost because this side refused every copy, for example for a wrong signature. */
  lostRefused: number;
  /** Lost while delivery was suspended, as the target reported. */
  lostSuspended: number;
  duplicates: number;
  outOfOrder: number;
  /** Deliveries that were not owed. */
  unexpected: number;
  /** Deliveries of events that were published while the subscription was being opened. */
  inFlight: number;
  /** Missing events that were published too shortly before the end. */
  excused: number;
  /** Delivered although publishing failed or timed out. */
  recovered: number;
  /** Delivered because a replay was requested. */
  replayed: number;
  /** Events that no Upstream of this process published. */
  unprobed: number;
  /** Deliveries of events whose publishing has not been answered yet. */
  undecided: number;
  refreshRequests: number;
  refreshBytes: number;
  /** Subscriptions that are open. */
  open: number;
  /** Calls of handlers that were dropped because 65,536 were waiting. */
  unhandled: number;
}

export interface Received {
  /** false if the timeout ended the wait. */
  complete: boolean;
  delivered: number;
  duplicates: number;
  outOfOrder: number;
  unexpected: number;
}

/** Summary of a histogram, in milliseconds. */
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
  /** Number of the event at its Upstream's topic, from 1; 0 for an event that no Upstream published. */
  seq: number;
  /** Milliseconds from the scheduled instant until receipt. */
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

/** The target ended a subscription, or the subscription failed. */
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

/** Subscriptions that were opened together. They end with the iteration, without settle and with a warning, unless they are closed before or kept. While there are handlers, the iteration lasts until they are closed. */
export interface Subscription {
  /** Adds a handler, which is called on the event loop. An exception in it fails the iteration. */
  on(name: "event", handler: (e: EventInfo) => void): void;
  on(name: "gap", handler: (g: GapInfo) => void): void;
  on(name: "closed", handler: (c: ClosedInfo) => void): void;
  on(name: "error", handler: (e: ErrorInfo) => void): void;
  /** Adds a handler that is called once. */
  once(name: "event", handler: (e: EventInfo) => void): void;
  once(name: "gap", handler: (g: GapInfo) => void): void;
  once(name: "closed", handler: (c: ClosedInfo) => void): void;
  once(name: "error", handler: (e: ErrorInfo) => void): void;
  /** Removes a handler that was added with on or once, or all handlers of the name. */
  off(name: "event" | "gap" | "closed" | "error", handler?: (info: any) => void): void;
  /** Waits until each subscription has its events, or the time is over. It never rejects. */
  received(options?: ReceivedOptions): Promise<Received>;
  /** Counts so far. Events in flight count as expected and lost. */
  stats(): Totals;
  /** The system's own figures so far; empty if it has none. */
  figures(): Figures;
  /** Waits for missing events (see settle), ends the subscriptions and resolves with the final counts. Metrics of expected and lost events and of conformance are sent then. Further calls resolve with the same counts. */
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
  /** https address, without a path, for targets. */
  url(): string;
  /** Certificate authority that targets must trust, PEM; "" if cert was given. */
  certPEM(): string;
}

/** Options of an Upstream: exactly one of admin, url, tool and feed, with what belongs to it. */
export type UpstreamOptions = ExactlyOne<AllUpstreamOptions, "admin" | "url" | "tool" | "feed"> & UpstreamExtras;

/** method and headers belong to url, client to tool, and timeout is not for feed. */
type UpstreamExtras =
  | { url: string; tool?: never; client?: never }
  | { tool: string; client: Client; method?: never; headers?: never }
  | { admin: string; method?: never; headers?: never; client?: never }
  | { feed: string; method?: never; headers?: never; client?: never; timeout?: never };

export interface AllUpstreamOptions {
  /** Event type. */
  event: string;
  /** Subscriptions with the same topic are owed the published events. Default: the event type. */
  topic?: string;
  /** Admin listener of a reference server (eventmeter serve). One of admin, url, tool and feed must be given. */
  admin?: string;
  /** A request to this URL causes the event; {probe} and {seq} are replaced. */
  url?: string;
  /** With url. Default POST. */
  method?: string;
  /** With url. */
  headers?: { [name: string]: string };
  /** A tool of the target causes the event; data are its arguments. */
  tool?: string;
  /** With tool: the Client that calls it. */
  client?: Client;
  /** host:port of a change feed that the target polls. The VUs of a process share it. */
  feed?: string;
  /** JSON to send, with {probe} in a string and optionally {seq}. Default {"text": "{probe}"}. */
  data?: JSONObject;
  /** Longest time to publish one event. Default 5s. Not with feed. */
  timeout?: Duration;
  /** Number of events published concurrently, 1 to 10,000. Default 64. */
  workers?: number;
}

export interface FireOptions {
  /** Number of events, 1 to 10,000,000. Default 1. */
  count?: number;
  /** Events per second, in an open loop: an event that cannot be published in time is dropped. Default: one after the other. */
  rate?: number;
}

export interface Fired {
  fired: number;
  accepted: number;
  /** Events whose request timed out or was interrupted, so that the outcome is unknown. */
  uncertain: number;
  refused: number;
  dropped: number;
}

/** Publishes events at the target. */
export class Upstream {
  constructor(options: UpstreamOptions);
  /** Publishes events, and resolves when each one is answered. A number is the count. The reason for refused events is logged once. */
  fire(options?: number | FireOptions): Promise<Fired>;
}

/** Returns the subscriptions that were opened with the option keep, in this process. They may be closed. */
export function kept(name: string): Subscription;
