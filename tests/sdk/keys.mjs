// SDKs of senders that sign with a private key. The pair is made here, and `sign` is ours, as they document it.
import crypto from "node:crypto";
import { EventEmitter } from "node:events";
import https from "node:https";
import { formOf, pair, pem, require, row } from "./table.mjs";

const rsa = (settings) => pair("rsa", { modulusLength: 2048 }, settings);
const { EventWebhook } = require("@sendgrid/eventwebhook");
const spki = (key) => key.export({ type: "spki", format: "der" }).toString("base64");
row("@sendgrid/eventwebhook", "sendgrid", {
  by: "key",
  keys: pair("ec", { namedCurve: "prime256v1" }, (key) => ({ public_keys: [spki(key)] })),
  sign: (m) => ({
    headers: {
      "x-twilio-email-event-webhook-timestamp": `${m.now}`,
      "x-twilio-email-event-webhook-signature": crypto.sign("sha256", `${m.now}${m.body}`, m.private).toString("base64"),
    },
  }),
  verify: (m) => {
    const [webhook, part] = [new EventWebhook(), (name) => m.headers[`x-twilio-email-event-webhook-${name}`]];
    const key = webhook.convertPublicKeyToECDSA(m.settings.public_keys[0]);
    return webhook.verifySignature(key, m.body, part("signature"), part("timestamp"));
  },
});
const discord = require("discord-interactions");
row("discord-interactions", "discord", {
  by: "key",
  keys: pair("ed25519", {}, (key) => ({ public_keys: [Buffer.from(key.export({ format: "jwk" }).x, "base64url").toString("hex")] })),
  sign: (m) => ({
    headers: {
      "x-signature-timestamp": `${m.now}`,
      "x-signature-ed25519": crypto.sign(null, Buffer.from(`${m.now}${m.body}`), m.private).toString("hex"),
    },
  }),
  verify: (m) => {
    const [signature, time] = [m.headers["x-signature-ed25519"], m.headers["x-signature-timestamp"]];
    return discord.verifyKey(m.body, signature, time, m.settings.public_keys[0]);
  },
});
const { TelnyxWebhook } = require("telnyx/lib/webhooks.js");
row("telnyx", "telnyx", {
  by: "key",
  stale: "both",
  keys: pair("ed25519", {}, (key) => ({
    public_keys: [Buffer.from(key.export({ format: "jwk" }).x, "base64url").toString("base64")],
  })),
  sign: (m) => ({
    headers: {
      "telnyx-timestamp": `${m.now}`,
      "telnyx-signature-ed25519": crypto.sign(null, Buffer.from(`${m.now}|${m.body}`), m.private).toString("base64"),
    },
  }),
  verify: async (m) => {
    await new TelnyxWebhook(m.settings.public_keys[0]).verify(m.body, m.headers);
    return true;
  },
});
const MessageValidator = require("sns-validator");
const certUrl = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-1.pem";
row("sns-validator", "aws_sns", {
  by: "key",
  keys: rsa((key) => ({ topic_arns: ["*"], public_keys: { [certUrl]: pem(key) } })),
  flip: 'body:"Message"',
  sign: (m) => {
    const MessageId = crypto.randomUUID(); // SNS has no other form
    const message = { ...JSON.parse(m.body), MessageId, SignatureVersion: "2", SigningCertURL: certUrl };
    const names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];
    const content = names.filter((name) => name in message).map((name) => `${name}\n${message[name]}\n`);
    message.Signature = crypto.sign("sha256", content.join(""), m.private).toString("base64");
    return { headers: {}, body: JSON.stringify(message) };
  },
  verify: (m) => {
    // No network: what the SDK would download is handed to it.
    https.get = (url, done) => {
      const answer = Object.assign(new EventEmitter(), { statusCode: 200 });
      done(answer);
      answer.emit("data", m.settings.public_keys[url]);
      answer.emit("end");
      return new EventEmitter();
    };
    return new Promise((yes, no) => new MessageValidator().validate(m.body, (error) => (error ? no(error) : yes(true))));
  },
});
const { SnapBi, SnapBiConfig } = require("midtrans-client");
row("midtrans-client", "midtrans", {
  as: "SNAP BI",
  by: "key",
  ours: false, // `sign` makes the older notification, which the SDK asks Midtrans about instead
  keys: rsa((key) => ({ public_key_pem: pem(key) })),
  sign: (m) => {
    const time = new Date(m.now * 1000).toISOString();
    const hash = crypto.createHash("sha256").update(JSON.stringify(JSON.parse(m.body))).digest("hex");
    const signed = `POST:${new URL(m.url).pathname}:${hash}:${time}`;
    const signature = crypto.sign("sha256", signed, m.private).toString("base64");
    return { headers: { "x-timestamp": time, "x-signature": signature } };
  },
  verify: (m) => {
    SnapBiConfig.snapBiPublicKey = m.settings.public_key_pem;
    const asked = SnapBi.notification().withNotificationPayload(JSON.parse(m.body));
    asked.withSignature(m.headers["x-signature"]).withTimeStamp(m.headers["x-timestamp"]);
    return asked.withNotificationUrlPath(new URL(m.url).pathname).isWebhookNotificationVerified();
  },
});
const { AlipaySdk } = require("alipay-sdk");
row("alipay-sdk", "alipay", {
  by: "key",
  keys: rsa((key) => ({ alipay_public_key_pem: [pem(key)] })),
  flip: "body:total_amount=",
  sign: (m) => {
    const given = { notify_id: m.id, trade_status: "TRADE_SUCCESS", total_amount: "10.01", subject: "a b & c", charset: "utf-8" };
    const content = Object.keys(given).sort().map((name) => `${name}=${given[name]}`).join("&");
    const sign = crypto.sign("sha256", content, m.private).toString("base64");
    return { headers: {}, body: new URLSearchParams({ ...given, sign_type: "RSA2", sign }).toString() };
  },
  verify: (m) => {
    const key = m.settings.alipay_public_key_pem[0];
    const alipayPublicKey = key.replace(/-----[^-]+-----|\n/g, "");
    return new AlipaySdk({ appId: "1", privateKey: "x", alipayPublicKey }).checkNotifySignV2(formOf(m.body));
  },
});
