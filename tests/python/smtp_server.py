"""A mail server for tests: prints its port, then each mail as a line of JSON, all of it to standard error.

usage: smtp_server.py [CERTIFICATE KEY]   with them it wants STARTTLS and a login
"""

import asyncio
import json
import ssl
import sys
from email import message_from_bytes
from email.policy import default

from aiosmtpd.smtp import SMTP, AuthResult


class Keep:
    async def handle_DATA(self, server, session, envelope):
        mail = message_from_bytes(envelope.original_content, policy=default)
        kept = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "subject": mail["subject"],
            "text": mail.get_content(),
            "tls": session.ssl is not None,
            "user": session.auth_data.login.decode() if session.auth_data else None,
        }
        print(json.dumps(kept), file=sys.stderr, flush=True)
        return "250 kept for ever"


def login(server, session, envelope, mechanism, auth_data):
    right = auth_data.password == b"s3cr%t+/"
    return AuthResult(success=right, handled=right, auth_data=auth_data)


async def main(files):
    def session():
        if not files:
            return SMTP(Keep())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        return SMTP(
            Keep(),
            tls_context=context,
            require_starttls=True,
            authenticator=login,
            auth_required=True,
        )

    server = await asyncio.get_running_loop().create_server(session, "127.0.0.1", 0)
    print("listening on", server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
    await server.serve_forever()


asyncio.run(main(sys.argv[1:]))
