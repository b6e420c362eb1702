"""Signs an event with Stripe's own SDK; prints header lines, an empty line and the body."""
import json
import sys

import stripe

now = int(sys.argv[1])
body = json.dumps({"id": "evt_sdk_1", "object": "event", "type": "invoice.paid", "created": now,
                   "data": {"object": {"id": "in_1", "description": "Zażółć gęślą jaźń"}}}, ensure_ascii=False)
secret = "whsec_test_0123456789abcdef"
signature = stripe.WebhookSignature._compute_signature(f"{now}.{body}", secret)
header = f"t={now},v1={signature}"
stripe.Webhook.construct_event(body, header, secret)  # the SDK believes it as well
sys.stdout.buffer.write(f"stripe-signature: {header}\n\n{body}".encode())
