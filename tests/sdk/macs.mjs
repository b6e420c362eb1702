// SDKs of senders that sign all bytes of the body with a shared secret.
import { require, row, text, whsec } from "./table.mjs";

const octokit = await import("@octokit/webhooks-methods");
row("@octokit/webhooks-methods", "github", {
  keys: text,
  sign: async (m) => ({ headers: { "x-hub-signature-256": await octokit.sign(m.secret, m.body) } }),
  verify: (m) => octokit.verify(m.secret, m.body, m.headers["x-hub-signature-256"]),
});

// The Standard Webhooks family: the SDK's class, and who carries it.
const standard = (Webhook, prefix) => ({
  keys: whsec,
  stale: "both",
  sign: (m) => ({
    headers: {
      [`${prefix}id`]: m.id,
      [`${prefix}timestamp`]: `${m.now}`,
      [`${prefix}signature`]: new Webhook(m.secret).sign(m.id, new Date(m.now * 1000), m.body),
    },
  }),
  verify: (m) => Boolean(new Webhook(m.secret).verify(m.body, m.headers)),
});
row("standardwebhooks", "standard_webhooks", standard(require("standardwebhooks").Webhook, "webhook-"));
row("svix", "svix", standard(require("svix").Webhook, "svix-"));
const clerk = require("@clerk/backend/webhooks");
row("@clerk/backend", "clerk", {
  keys: whsec,
  stale: "both",
  verify: async (m) => {
    const request = new Request(m.url, { method: "POST", headers: m.headers, body: m.body });
    return Boolean(await clerk.verifyWebhook(request, { signingSecret: m.secret }));
  },
});
const { Resend } = require("resend");
row("resend", "resend", {
  keys: whsec,
  stale: "both",
  verify: (m) => {
    const part = (name) => m.headers[`svix-${name}`];
    const headers = { id: part("id"), timestamp: part("timestamp"), signature: part("signature") };
    return Boolean(new Resend("re_x").webhooks.verify({ payload: m.body, headers, webhookSecret: m.secret }));
  },
});
const OpenAI = require("openai").default;
row("openai", "openai", {
  keys: whsec,
  stale: "both",
  verify: async (m) => Boolean(await new OpenAI({ apiKey: "x" }).webhooks.unwrap(m.body, m.headers, m.secret)),
});
row("openai", "openai", {
  as: "a secret without whsec_",
  keys: text,
  stale: "both",
  verify: async (m) => Boolean(await new OpenAI({ apiKey: "x" }).webhooks.unwrap(m.body, m.headers, m.secret)),
});
const Lithic = require("lithic").default;
row("lithic", "lithic", {
  keys: whsec,
  stale: "both",
  verify: (m) => Boolean(new Lithic({ apiKey: "x" }).webhooks.unwrap(m.body, m.headers, m.secret)),
});

// Plain MACs.
const razorpay = require("razorpay");
row("razorpay", "razorpay", {
  keys: text,
  verify: (m) => razorpay.validateWebhookSignature(m.body, m.headers["x-razorpay-signature"], m.secret),
});
await import("@shopify/shopify-api/adapters/node");
const shopify = await import("@shopify/shopify-api");
row("@shopify/shopify-api", "shopify", {
  keys: text,
  verify: async (m) => {
    const api = shopify.shopifyApi({
      apiKey: "key",
      apiSecretKey: m.secret,
      hostName: "hooks.example.com",
      apiVersion: shopify.LATEST_API_VERSION ?? Object.values(shopify.ApiVersion).at(-1),
      isEmbeddedApp: false,
      logger: { log: () => {} },
    });
    const more = { "x-shopify-topic": "orders/paid", "x-shopify-shop-domain": "a.myshopify.com" };
    const headers = { "x-shopify-api-version": "2026-01", "x-shopify-webhook-id": m.id, ...more, ...m.headers };
    const request = { method: "POST", url: m.url, headers };
    const result = await api.webhooks.validate({ rawBody: m.body, rawRequest: request, rawResponse: {} });
    if (!result.valid) throw new Error(JSON.stringify(result));
    return true;
  },
});
const gocardless = require("gocardless-nodejs/webhooks");
row("gocardless-nodejs", "gocardless", {
  keys: text,
  verify: (m) => Boolean(gocardless.parse(m.body, m.secret, m.headers["webhook-signature"])),
});
const { Paddle } = require("@paddle/paddle-node-sdk");
row("@paddle/paddle-node-sdk", "paddle_billing", {
  keys: text,
  stale: "both",
  verify: (m) => new Paddle("x").webhooks.isSignatureValid(m.body, m.secret, m.headers["paddle-signature"]),
});
const coinbase = require("coinbase-commerce-node").Webhook;
row("coinbase-commerce-node", "coinbase_commerce", {
  keys: text,
  sign: (m) => ({ headers: { "x-cc-webhook-signature": coinbase.computeSignature(m.body, m.secret) } }),
  verify: (m) => Boolean(coinbase.verifyEventBody(m.body, m.headers["x-cc-webhook-signature"], m.secret)),
});
const sanity = require("@sanity/webhook");
row("@sanity/webhook", "sanity", {
  keys: text,
  sign: async (m) => ({
    headers: { "sanity-webhook-signature": await sanity.encodeSignatureHeader(m.body, m.now * 1000, m.secret) },
  }),
  verify: (m) => sanity.isValidSignature(m.body, m.headers["sanity-webhook-signature"], m.secret),
});
const { WorkOS } = require("@workos-inc/node");
row("@workos-inc/node", "workos", {
  keys: text,
  stale: "both",
  sign: async (m) => {
    const signature = await new WorkOS("sk_x").webhooks.computeSignature(m.now * 1000, JSON.parse(m.body), m.secret);
    return { headers: { "workos-signature": `t=${m.now * 1000}, v1=${signature}` } };
  },
  verify: (m) =>
    new WorkOS("sk_x").webhooks.verifyHeader({
      payload: JSON.parse(m.body), // it signs what it reads, written again
      sigHeader: m.headers["workos-signature"],
      secret: m.secret,
    }),
});
const { LinearWebhookClient } = await import("@linear/sdk/webhooks");
row("@linear/sdk", "linear", {
  keys: text,
  stale: "both",
  verify: (m) => new LinearWebhookClient(m.secret).verify(Buffer.from(m.body), m.headers["linear-signature"]),
});
const notion = require("@notionhq/client");
row("@notionhq/client", "notion", {
  keys: text,
  sign: async (m) => ({
    headers: {
      "x-notion-signature": await notion.signWebhookPayload({ body: m.body, verificationToken: m.secret }),
    },
  }),
  verify: (m) =>
    notion.verifyWebhookSignature({
      body: m.body,
      signature: m.headers["x-notion-signature"],
      verificationToken: m.secret,
    }),
});
const line = require("@line/bot-sdk");
row("@line/bot-sdk", "line", {
  keys: text,
  verify: (m) => line.validateSignature(m.body, m.secret, m.headers["x-line-signature"]),
});
const Pusher = require("pusher");
const pusher = (m) =>
  new Pusher({ appId: "1", key: "key-1", secret: m.settings.named_secrets["key-1"], cluster: "eu" });
row("pusher", "pusher", {
  keys: (n) => ({ settings: { named_secrets: { "key-1": `pusher-secret-${n}` } } }),
  sign: (m) => ({
    headers: { "x-pusher-key": "key-1", "x-pusher-signature": pusher(m).config.token.sign(m.body) },
  }),
  verify: (m) => pusher(m).webhook({ headers: m.headers, rawBody: m.body }).isValid(),
});
const box = require("box-node-sdk");
row("box-node-sdk", "box", {
  keys: (n) => ({ settings: { named_secrets: { primary: `box-secret-${n}` } } }),
  stale: "both",
  verify: (m) => box.validateWebhookMessage(m.body, m.headers, m.settings.named_secrets.primary),
});
const { Cashfree, CFEnvironment } = require("cashfree-pg");
row("cashfree-pg", "cashfree", {
  keys: text,
  verify: (m) => {
    const api = new Cashfree(CFEnvironment.SANDBOX, "id", m.secret);
    const [signature, time] = [m.headers["x-webhook-signature"], m.headers["x-webhook-timestamp"]];
    return Boolean(api.PGVerifyWebhookSignature(signature, m.body, time));
  },
});
const { basicAuthValidator } = require("chargebee");
row("chargebee", "chargebee", {
  keys: (n) => ({ settings: { username: "hooks", password: `chargebee-password-${n}` } }),
  flip: "header:authorization",
  verify: async (m) => {
    const same = (user, password) => user === m.settings.username && password === m.settings.password;
    await basicAuthValidator(same)(m.headers);
    return true;
  },
});
const { Mux } = require("@mux/mux-node");
row("@mux/mux-node", "mux", {
  keys: text,
  stale: "both",
  verify: async (m) => {
    const mux = new Mux({ tokenId: "x", tokenSecret: "x", webhookSecret: m.secret });
    await mux.webhooks.verifySignature(m.body, m.headers);
    return true;
  },
});
const { WebhookEventVerifier } = require("@onfido/api");
row("@onfido/api", "onfido", {
  keys: text,
  verify: (m) => Boolean(new WebhookEventVerifier(m.secret).readPayload(m.body, m.headers["x-sha2-signature"])),
});
