// SDKs of senders that sign the URL as well, or parts of the body.
import crypto from "node:crypto";
import { formOf, pathOf, require, row, text } from "./table.mjs";

const twilio = require("twilio");
const { getExpectedTwilioSignature } = require("twilio/lib/webhooks/webhooks");
row("twilio", "twilio", {
  keys: text,
  sign: (m) => ({
    headers: { "x-twilio-signature": getExpectedTwilioSignature(m.secret, m.url, formOf(m.body)) },
  }),
  verify: (m) => twilio.validateRequest(m.secret, m.headers["x-twilio-signature"], m.url, formOf(m.body)),
});
const { Signature } = require("@hubspot/api-client/lib/src/utils/signature");
const hubspot = (m, timestamp) => ({ url: m.url, requestBody: m.body, timestamp, clientSecret: m.secret });
row("@hubspot/api-client", "hubspot", {
  keys: text,
  stale: "both",
  sign: (m) => ({
    headers: {
      "x-hubspot-request-timestamp": `${m.now * 1000}`,
      "x-hubspot-signature-v3": Signature.getSignature("POST", "v3", hubspot(m, m.now * 1000)),
    },
  }),
  verify: (m) =>
    Signature.isValid({
      signatureVersion: "v3",
      signature: m.headers["x-hubspot-signature-v3"],
      ...hubspot(m, Number(m.headers["x-hubspot-request-timestamp"])),
    }),
});
const contentful = require("@contentful/node-apps-toolkit");
const canonical = (m, headers) => ({ method: "POST", path: pathOf(m.url), headers, body: m.body });
const contentfulKeys = (n) => ({ secrets: [`${n}`.repeat(64)] });
row("@contentful/node-apps-toolkit", "contentful", {
  keys: contentfulKeys,
  stale: "both",
  sign: (m) => {
    const headers = { "x-contentful-topic": m.type };
    return { headers: { ...headers, ...contentful.signRequest(m.secret, canonical(m, headers), m.now * 1000) } };
  },
  verify: (m) => contentful.verifyRequest(m.secret, canonical(m, m.headers)),
});
const { WebhookSignatureValidator } = require("mercadopago");
row("mercadopago", "mercadopago", {
  keys: text,
  flip: "url",
  verify: (m) => {
    const [xSignature, xRequestId] = [m.headers["x-signature"], m.headers["x-request-id"]];
    const dataId = new URL(m.url).searchParams.get("data.id").toLowerCase(); // which the documentation leaves to the app
    WebhookSignatureValidator.validate({ xSignature, xRequestId, dataId, secret: m.secret });
    return true;
  },
});
const braintree = require("braintree");
const gateway = (m) => {
  const { public_key: publicKey, private_key: privateKey } = m.settings;
  return new braintree.BraintreeGateway({
    environment: braintree.Environment.Sandbox,
    merchantId: "merchant",
    publicKey,
    privateKey,
  });
};
row("braintree", "braintree", {
  keys: (n) => ({ settings: { public_key: "public", private_key: `braintree-private-${n}` } }),
  flip: "body:bt_payload=",
  sign: async (m) => {
    const sample = await gateway(m).webhookTesting.sampleNotification("subscription_went_past_due", m.id);
    return { headers: {}, body: new URLSearchParams(sample).toString() };
  },
  verify: async (m) => {
    const form = formOf(m.body);
    return Boolean(await gateway(m).webhookNotification.parse(form.bt_signature, form.bt_payload));
  },
});
const PayU = require("payu-websdk");
const payu = (m) => new PayU({ key: m.settings.merchant_key, salt: m.settings.salt }, "TEST");
row("payu-websdk", "payu", {
  as: "India",
  ours: false, // `sign` makes what PayU sends in Europe
  keys: (n) => ({ settings: { merchant_key: "key", salt: `payu-salt-${n}` } }),
  flip: "body:amount=",
  sign: (m) => {
    const fields = { key: "key", txnid: m.id, amount: "10.00", productinfo: "a b", firstname: "Jan", email: "a@b.example" };
    const form = { ...fields, udf1: "1", status: "success", mihpayid: "4" };
    return { headers: {}, body: new URLSearchParams({ ...form, hash: payu(m).hasher.generateResponseHash(form) }).toString() };
  },
  verify: (m) => payu(m).hasher.validateResponseHash(formOf(m.body)),
});
const jwt = require("atlassian-jwt");
const queryHash = (m) => jwt.createQueryStringHash(jwt.fromMethodAndUrl("POST", pathOf(m.url)), false, "");
row("atlassian-jwt", "atlassian_connect", {
  keys: text,
  flip: "url",
  stale: "us", // the SDK leaves `exp` to the app
  sign: (m) => {
    const claims = { iss: "jira:1", iat: m.now, exp: m.now + 180, qsh: queryHash(m) };
    return { headers: { authorization: `JWT ${jwt.encodeSymmetric(claims, m.secret)}` } };
  },
  verify: (m) => {
    const claims = jwt.decodeSymmetric(m.headers.authorization.slice(4), m.secret, jwt.SymmetricAlgorithm.HS256);
    return claims.qsh === queryHash(m);
  },
});
const vonage = require("@vonage/jwt");
row("@vonage/jwt", "vonage", {
  keys: text,
  verify: (m) => {
    const token = m.headers.authorization.slice("Bearer ".length);
    if (!vonage.verifySignature(token, m.secret)) return false;
    // Vonage has the app compare the body.
    const claims = JSON.parse(Buffer.from(token.split(".")[1], "base64url"));
    return claims.payload_hash === crypto.createHash("sha256").update(m.body).digest("hex");
  },
});
const { validateV3Signature } = require("plivo/dist/utils/v3Security.js");
row("plivo", "plivo", {
  keys: text,
  verify: (m) => {
    const part = (name) => m.headers[`x-plivo-signature-v3${name}`];
    return validateV3Signature("POST", m.url, part("-nonce"), m.secret, part(""), formOf(m.body));
  },
});
