"""FastMCP as a proxy: fastmcp_proxy.py PORT UPSTREAM_URL"""

import sys

from fastmcp.server import create_proxy

proxy = create_proxy(sys.argv[2], name="bench")
proxy.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False)
