"""Signs a message with the Standard Webhooks SDK; prints header lines, an empty line and the body."""
import datetime
import sys

from standardwebhooks.webhooks import Webhook

at = datetime.datetime.fromtimestamp(int(sys.argv[1]), tz=datetime.timezone.utc)
body = '{"type":"invoice.paid","data":{"id":"in_1"}}'
webhook = Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
signature = webhook.sign("msg_sdk_1", at, body)
headers = {"webhook-id": "msg_sdk_1", "webhook-timestamp": sys.argv[1], "webhook-signature": signature}
webhook.verify(body, headers)  # the SDK believes it as well
sys.stdout.write("".join(f"{name}: {value}\n" for name, value in headers.items()) + "\n" + body)
