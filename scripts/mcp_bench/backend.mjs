// An MCP server that does nothing: one tool, `echo`. It is the upstream of every proxy of the bench.
//
//   node backend.mjs http PORT     on 127.0.0.1; GET /stats returns how many requests it got
//   node backend.mjs stdio
import http from 'node:http';
import readline from 'node:readline';

const MODERN = '2026-07-28';
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
const info = { name: 'bench', version: '1' };
const capabilities = { tools: {} };
const tools = [
    {
        name: 'echo',
        description: 'Returns the text.',
        inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
        annotations: { readOnlyHint: true },
    },
];
const counts = {};

function result(message) {
    const modern = message.params?._meta?.[VERSION_KEY] !== undefined;
    const complete = modern ? { resultType: 'complete' } : {};
    const cached = modern ? { ttlMs: 60000, cacheScope: 'private' } : {};
    switch (message.method) {
        case 'initialize':
            return { protocolVersion: '2025-11-25', capabilities, serverInfo: info };
        case 'server/discover':
            return { ...complete, ...cached, supportedVersions: [MODERN], capabilities, _meta: { 'io.modelcontextprotocol/serverInfo': info } };
        case 'tools/list':
            return { ...complete, ...cached, tools };
        case 'tools/call':
            return { ...complete, content: [{ type: 'text', text: message.params.arguments.text }] };
        case 'ping':
            return {};
        default:
            return undefined;
    }
}

function answer(message) {
    const name = message.method ?? 'response';
    counts[name] = (counts[name] ?? 0) + 1;
    if (message.id === undefined || message.method === undefined) return undefined;
    const value = result(message);
    const body = value === undefined ? { error: { code: -32601, message: 'Method not found' } } : { result: value };
    return JSON.stringify({ jsonrpc: '2.0', id: message.id, ...body });
}

function serve(port) {
    const server = http.createServer((request, response) => {
        if (request.url === '/stats') return response.end(JSON.stringify(counts));
        if (request.method !== 'POST') {
            counts[request.method] = (counts[request.method] ?? 0) + 1;
            response.statusCode = request.method === 'DELETE' ? 204 : 405;
            return response.end();
        }
        const chunks = [];
        request.on('data', (chunk) => chunks.push(chunk));
        request.on('end', () => {
            const message = JSON.parse(Buffer.concat(chunks).toString());
            const body = answer(message);
            if (message.method === 'initialize') response.setHeader('mcp-session-id', crypto.randomUUID());
            response.statusCode = body === undefined ? 202 : 200;
            if (body !== undefined) response.setHeader('content-type', 'application/json');
            response.end(body);
        });
    });
    server.keepAliveTimeout = 600_000;
    server.on('connection', (socket) => socket.setNoDelay(true));
    server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/mcp`));
}

if (process.argv[2] === 'http') {
    serve(Number(process.argv[3]));
} else {
    readline.createInterface({ input: process.stdin }).on('line', (line) => {
        const body = answer(JSON.parse(line));
        if (body !== undefined) process.stdout.write(body + '\n');
    });
}
