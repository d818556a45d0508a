"""``python tests/tls_proxy.py CERTIFICATE KEY PORT INNER``: speaks TLS on PORT, plainly to INNER."""

from __future__ import annotations

import asyncio
import ssl
import sys


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def main(certificate: str, key: str, port: str, inner: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back = await asyncio.open_connection("127.0.0.1", int(inner))
        await asyncio.gather(copy(reader, back[1]), copy(back[0], writer), return_exceptions=True)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(connected, "127.0.0.1", int(port), ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
