// Mistakes that the declarations have to find: where one is none, the line
// above it is an error.
import { Client, Failure, kept, Subscription, Upstream, WebhookSink } from "k6/x/mcpevents";

export default async function () {
  // @ts-expect-error the URL is missing
  new Client();
  // @ts-expect-error there is no such era
  const client = new Client("http://127.0.0.1:8080/mcp", { era: "ancient" });
  // @ts-expect-error it resolves later
  const early: Subscription = client.stream("chat.message");
  // @ts-expect-error minInterval belongs to poll
  const sub = await client.stream("chat.message", { streams: 5, minInterval: "1s" });
  // @ts-expect-error a number is wanted
  await client.poll("chat.message", { subscriptions: "5" });
  // @ts-expect-error a sink is an object
  await client.subscribe("chat.message", { sink: "127.0.0.1:8443" });
  // @ts-expect-error there is no such client
  await client.subscribe("chat.message", { client: "siri" });
  // @ts-expect-error the secret is missing
  new Client("http://127.0.0.1:8080/mcp", { oauth: { clientId: "load" } });
  // @ts-expect-error a stream has no callback
  await client.stream("chat.message", { shareUrl: true });
  await new Client("http://127.0.0.1:8080/mcp", { version: "2025-06-18", oauth: { clientId: "load-{principal}", secret: "s", principals: 2 } }).subscribe("chat.message", { client: "ai-sdk", shareUrl: true, ttl: "none" });
  // @ts-expect-error smithery has webhooks only
  await client.stream("chat.message", { system: "smithery" });
  // @ts-expect-error there is no such list
  await client.watchLists("chat.message");
  // @ts-expect-error there is no such event
  sub.on("message", () => {});
  // @ts-expect-error gaps have no latency
  sub.on("gap", (g) => g.latency);
  // @ts-expect-error no such count
  (await sub.close()).missing;
  // @ts-expect-error subscriptions are opened by a client
  new Subscription();
  // @ts-expect-error the event type is missing
  new Upstream({ admin: "http://127.0.0.1:8081" });
  // @ts-expect-error a name is wanted
  kept();
  // @ts-expect-error a duration has a unit
  await client.stream("chat.message", { settle: "10" });
  // @ts-expect-error this is no unit
  await client.stream("chat.message", { settle: "10 seconds" });
  // @ts-expect-error of a text that is not known to be a duration, either
  await client.list("tools", { timeout: String(5) });
  await client.stream("chat.message", { settle: "1m30s", readyTimeout: 500, heartbeat: "1.5s", maxAge: "1h2m3s", cutEvery: "0" });
  // @ts-expect-error one of token and tokens
  new Client("http://127.0.0.1:8080/mcp", { token: "a", tokens: ["b"] });
  // @ts-expect-error one of token and oauth
  new Client("http://127.0.0.1:8080/mcp", { token: "a", oauth: { clientId: "load", secret: "s" } });
  new Client("http://127.0.0.1:8080/mcp", { tokens: ["a", "b"], headers: { "x-team": "load" } });
  // @ts-expect-error one upstream only
  new Upstream({ event: "chat.message", admin: "http://127.0.0.1:8081", url: "http://127.0.0.1:9000" });
  // @ts-expect-error one upstream at least
  new Upstream({ event: "chat.message" });
  // @ts-expect-error method belongs to url
  new Upstream({ event: "chat.message", admin: "http://127.0.0.1:8081", method: "PUT" });
  // @ts-expect-error a tool needs a client
  new Upstream({ event: "chat.message", tool: "say" });
  // @ts-expect-error a feed sends nothing that could time out
  new Upstream({ event: "chat.message", feed: "127.0.0.1:9000", timeout: "1s" });
  new Upstream({ event: "chat.message", tool: "say", client, timeout: "1s" });
  new Upstream({ event: "chat.message", url: "http://127.0.0.1:9000", method: "PUT", headers: {} });
  new Upstream({ event: "chat.message", feed: "127.0.0.1:9000", workers: 5 });
  // @ts-expect-error tags are texts
  await client.stream("chat.message", { tags: { shard: 5 } });
  const heard = (e: { seq: number }) => {};
  sub.once("event", heard);
  sub.off("event", heard);
  sub.off("gap");
  // @ts-expect-error there is no such event
  sub.off("message");
  await sub.close().catch((e: Failure) => e.code === "timeout");
  // @ts-expect-error there is no such code
  await sub.close().catch((e: Failure) => e.code === "late");
  new WebhookSink({ listen: "127.0.0.1:0" }).url().startsWith("https://");
  return early;
}
