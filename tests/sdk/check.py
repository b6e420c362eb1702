"""The senders' SDKs from PyPI as the other side. Reads JSON requests, one a line, and answers each with one line:
{"do":"rows"}, {"do":"sign","asks":[...]} and {"do":"verify","asks":[...]}; tests/it/sdk/ asks. Every SDK is loaded
once. A row without a `sign` of its SDK's cannot be signed here, but what Hooklatch signs is judged by the SDK."""
import base64
import datetime
import importlib.metadata
import json
import logging
import sys
import time
import types
import urllib.parse

logging.disable(logging.CRITICAL)
out, sys.stdout = sys.stdout, sys.stderr  # what an SDK prints is no answer

clock, real_time = {}, time.time
# The time at which the SDKs judge: some allow five seconds, and a slow machine is no stale signature.
time.time = lambda: clock.get("s") or real_time()

import braintree
import coinbase_commerce.webhook
import discord_interactions
import gocardless_pro.webhooks
import increase
import modern_treasury
import paymongo
import plivo.utils
import polar
import razorpay
import standardwebhooks
import stripe
import workos
from Adyen import util as adyen
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from elevenlabs.webhooks_custom import WebhooksClient
from google.auth import crypt, jwt
from google.oauth2 import id_token
from mollie.utils.webhooks.signature_validator import SignatureValidator
from paddle_billing.Notifications import Secret, Verifier
from polar import webhooks as polar_errors
from polar.v2026_10 import webhooks as polar_webhooks
from slack_sdk.signature import SignatureVerifier
from square.utils import webhooks_helper as square

rows = []


def row(package, kind, keys, **rest):
    """One SDK for one kind. `stale`: who refuses what was signed a day ago; `flip`: where a bit is flipped."""
    shown = {"as": "", "by": "sdk", "stale": "none", "flip": "", "ours": True, "sign": None, "verify": None}
    rows.append({"package": package, "kind": kind, "keys": keys, **shown, **rest})


# Keys: the first is configured, the second is a stranger's.
def text(n):
    return {"secrets": [f"sdk-secret-number-{n}-0123456789"]}


def whsec(n, prefix="whsec_"):
    return {"secrets": [prefix + base64.b64encode(text(n)["secrets"][0].encode()).decode()]}


def hexadecimal(n):
    return {"secrets": [text(n)["secrets"][0].encode().hex()]}


def private_pem(key):
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def stripe_verify(m):
    is_thin = json.loads(m.body).get("object") == "v2.core.event"
    read = stripe.StripeClient("sk_x").parse_event_notification if is_thin else stripe.Webhook.construct_event
    return read(m.body, m.headers["stripe-signature"], m.secret)


row("stripe", "stripe", text, stale="both",
    sign=lambda m: {"stripe-signature": stripe.WebhookSignature.generate_signature_header(
        m.body, m.secret, timestamp=m.now)},
    verify=stripe_verify)


def standard(key):
    def sign(m):
        at = datetime.datetime.fromtimestamp(m.now, tz=datetime.timezone.utc)
        signature = standardwebhooks.Webhook(key(m.secret)).sign(m.id, at, m.body)
        return {"webhook-id": m.id, "webhook-timestamp": str(m.now), "webhook-signature": signature}

    def verify(m):
        return standardwebhooks.Webhook(key(m.secret)).verify(m.body, m.headers)

    return {"sign": sign, "verify": verify, "stale": "both"}


row("standardwebhooks", "standard_webhooks", whsec, **standard(lambda secret: secret))
row("standardwebhooks", "bigcommerce", text, **standard(str.encode))
row("standardwebhooks", "supabase", lambda n: whsec(n, "v1,whsec_"), **standard(lambda s: s.removeprefix("v1,")))
increase_events = increase.Increase(api_key="x").events
row("increase", "increase", text, stale="both",
    verify=lambda m: increase_events.unwrap(m.body, headers=m.headers, key=m.secret.encode()))


def polar_verify(m):
    try:
        polar_webhooks.validate_event(m.body, m.headers, m.secret)
    except polar_errors.PolarWebhookVerificationError:
        raise
    except Exception:  # believed; that a sample is no whole object of theirs is another matter
        pass
    return True


row("polar-sdk", "polar", text, stale="both", verify=polar_verify)


def slack(m):
    return SignatureVerifier(m.secret)


row("slack_sdk", "slack", text, stale="both",
    sign=lambda m: {"x-slack-request-timestamp": str(m.now),
                    "x-slack-signature": slack(m).generate_signature(timestamp=str(m.now), body=m.body)},
    verify=lambda m: slack(m).is_valid_request(m.body, m.headers))


def adyen_sign(m):
    body = json.loads(m.body)
    for item in body["notificationItems"]:
        item = item["NotificationRequestItem"]
        item.setdefault("additionalData", {})["hmacSignature"] = adyen.generate_notification_sig(item, m.secret).decode()
    return {}, json.dumps(body)


def adyen_in_header(m):
    return adyen.is_valid_hmac_payload(m.headers["hmacsignature"], m.secret, m.body.encode())


def adyen_verify(m):
    items = "notificationItems" in json.loads(m.body)
    return adyen.is_valid_hmac_notification(json.loads(m.body), m.secret) if items else adyen_in_header(m)


row("Adyen", "adyen", hexadecimal, flip='body:"pspReference"', sign=adyen_sign,
    verify=adyen_verify)
row("Adyen", "adyen", hexadecimal, ours=False, **{"as": "in the header"},
    sign=lambda m: {"hmacsignature": adyen.generate_payload_sig(m.body.encode(), m.secret).decode()},
    verify=adyen_in_header)
row("squareup", "square", text,
    verify=lambda m: square.verify_signature(
        request_body=m.body, signature_header=m.headers["x-square-hmacsha256-signature"],
        signature_key=m.secret, notification_url=m.url))


def gateway(m):
    pair = {"public_key": m.settings["public_key"], "private_key": m.settings["private_key"]}
    sandbox = braintree.Configuration(braintree.Environment.Sandbox, merchant_id="merchant", **pair)
    return braintree.BraintreeGateway(sandbox)


def braintree_sign(m):
    sample = gateway(m).webhook_testing.sample_notification("subscription_went_past_due", m.id)
    return {}, urllib.parse.urlencode(sample)


def braintree_verify(m):
    form = dict(urllib.parse.parse_qsl(m.body))
    return gateway(m).webhook_notification.parse(form["bt_signature"], form["bt_payload"])


row("braintree", "braintree",
    lambda n: {"settings": {"public_key": "public", "private_key": f"braintree-private-{n}"}},
    flip="body:bt_payload=", sign=braintree_sign, verify=braintree_verify)


treasury = modern_treasury.ModernTreasury(api_key="x", organization_id="x").webhooks
row("modern-treasury", "modern_treasury", text,
    sign=lambda m: {"x-signature": treasury.get_signature(m.body, key=m.secret)},
    verify=lambda m: treasury.validate_signature(m.body, {"X-Signature": m.headers["x-signature"]}, key=m.secret))
row("mollie-api-py", "mollie", text,
    sign=lambda m: {"x-mollie-signature": "sha256=" + SignatureValidator.create_signature(m.body, m.secret)},
    verify=lambda m: SignatureValidator.validate(m.body, m.secret, m.headers["x-mollie-signature"]))
row("elevenlabs", "elevenlabs", text, stale="both",
    verify=lambda m: WebhooksClient(client_wrapper=None).construct_event(
        m.body, m.headers["elevenlabs-signature"], m.secret))
row("gocardless_pro", "gocardless", text,
    verify=lambda m: gocardless_pro.webhooks.parse(m.body, m.secret, m.headers["webhook-signature"]))
row("paddle-python-sdk", "paddle_billing", text, stale="both",
    verify=lambda m: Verifier().verify(
        types.SimpleNamespace(headers={"Paddle-Signature": m.headers["paddle-signature"]}, body=m.body.encode()),
        Secret(m.secret)))
coinbase = coinbase_commerce.webhook
row("coinbase-commerce", "coinbase_commerce", text,
    sign=lambda m: {"x-cc-webhook-signature": coinbase.WebhookSignature._compute_signature(m.body, m.secret)},
    verify=lambda m: coinbase.Webhook.construct_event(m.body, m.headers["x-cc-webhook-signature"], m.secret))
razorpay_utility = razorpay.Client(auth=("id", "key")).utility
row("razorpay", "razorpay", text,
    verify=lambda m: razorpay_utility.verify_webhook_signature(
        m.body, m.headers["x-razorpay-signature"], m.secret))


def paymongo_verify(m):
    # It compares with the live signature alone, by its place; `sign` writes the one of test mode.
    part = dict(part.split("=", 1) for part in m.headers["paymongo-signature"].split(","))
    header = f"t={part['t']},te=,li={part['te']}"
    try:
        paymongo.Webhook.construct_event(m.body, header, m.secret)
    except paymongo.SignatureVerificationException:
        raise
    except KeyError:  # believed; the samples are no whole objects of theirs
        pass
    return True


row("paymongo-python", "paymongo", text, verify=paymongo_verify)
row("plivo", "plivo", text,
    verify=lambda m: plivo.utils.validate_v3_signature(
        "POST", m.url, m.headers["x-plivo-signature-v3-nonce"], m.secret, m.headers["x-plivo-signature-v3"],
        dict(urllib.parse.parse_qsl(m.body, keep_blank_values=True))))


workos_webhooks = workos.WorkOSClient(api_key="sk_x", client_id="client_x").webhooks


def workos_verify(m):
    workos_webhooks.verify_header(
        event_body=m.body, event_signature=m.headers["workos-signature"], secret=m.secret)
    return True


row("workos", "workos", text, stale="both", verify=workos_verify)


def discord_keys(_):
    key = ed25519.Ed25519PrivateKey.generate()
    return {"settings": {"public_keys": [key.public_key().public_bytes_raw().hex()]}, "private": key.private_bytes_raw().hex()}


def discord_sign(m):
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(m.private))
    return {"x-signature-timestamp": str(m.now), "x-signature-ed25519": key.sign(f"{m.now}{m.body}".encode()).hex()}


row("discord-interactions", "discord", discord_keys, by="key", sign=discord_sign,
    verify=lambda m: discord_interactions.verify_key(
        m.body.encode(), m.headers["x-signature-ed25519"], m.headers["x-signature-timestamp"],
        m.settings["public_keys"][0]))

AUDIENCE, ACCOUNT = "https://hooks.example.com/pubsub", "pusher@proj.iam.gserviceaccount.com"


def google_keys(_):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
    settings = {"audience": AUDIENCE, "service_account": ACCOUNT, "public_keys": {"kid-1": public}}
    return {"settings": settings, "private": private_pem(key)}


def google_sign(m):
    claims = {"aud": AUDIENCE, "email": ACCOUNT, "email_verified": True, "iss": "https://accounts.google.com",
              "sub": "1", "azp": "1", "iat": m.now, "exp": m.now + 3600}
    token = jwt.encode(crypt.RSASigner.from_string(m.private, key_id="kid-1"), claims)
    return {"authorization": "Bearer " + token.decode()}


def google_verify(m):
    def transport(url, method):  # no network: what the SDK would download is handed to it
        return types.SimpleNamespace(status=200, data=json.dumps(m.settings["public_keys"]).encode())

    token = m.headers["authorization"].removeprefix("Bearer ")
    return id_token.verify_oauth2_token(token, transport, AUDIENCE)["email"] == ACCOUNT


row("google-auth", "google_pubsub", google_keys, flip="header:authorization", stale="both",
    sign=google_sign, verify=google_verify)


def shown(one):
    return {"package": one["package"], "version": importlib.metadata.version(one["package"]), "registry": "PyPI",
            "kind": one["kind"], "as": one["as"], "signs": one["by"] if one["sign"] else "",
            "verifies": one["verify"] is not None, "ours": one["ours"], "stale": one["stale"], "flip": one["flip"],
            "keys": [one["keys"](1), one["keys"](2)]}


def message(ask):
    keys = {"settings": {}, **ask["keys"]}
    return types.SimpleNamespace(**{**ask, **keys, "secret": (keys.get("secrets") or [None])[0]})


def sign(ask):
    signed = rows[ask["row"]]["sign"](message(ask))
    headers, body = signed if isinstance(signed, tuple) else (signed, None)
    return {"headers": headers, "body": body}


def verify(ask):
    """An SDK says no by something false or by raising."""
    return {"believed": bool(rows[ask["row"]]["verify"](message(ask))), "why": ""}


def answered(do, ask):
    try:
        return {"sign": sign, "verify": verify}[do](ask)
    except Exception as error:
        return {"believed": False, "why": f"{type(error).__name__}: {error}"}


for line in sys.stdin:
    request = json.loads(line)
    clock["s"] = request.get("clock")
    answers = [shown(one) for one in rows] if request["do"] == "rows" else [
        answered(request["do"], ask) for ask in request["asks"]]
    out.write(json.dumps(answers) + "\n")
    out.flush()
