// The official TypeScript SDK client in front of `haft serve`: client.mjs legacy|modern stdio|http TARGET
import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [version, transportName, target] = process.argv.slice(2);
const project = process.env.HAFT_PROJECT;
const questions = [];
let decision = 'allow';

const client = new Client(
    { name: 'peer', version: '1' },
    {
        capabilities: { elicitation: { form: {} } },
        versionNegotiation: { mode: version === 'modern' ? { pin: '2026-07-28' } : 'legacy' },
    },
);
client.setRequestHandler('elicitation/create', async (request) => {
    // After a result of a server, a call that may have effects asks as well.
    if (!request.params.message.includes('memory__create_entities')) {
        return { action: 'accept', content: { decision: 'allow' } };
    }
    questions.push(request.params.message);
    return { action: 'accept', content: { decision } };
});
const transport =
    transportName === 'http'
        ? new StreamableHTTPClientTransport(new URL(target))
        : new StdioClientTransport({
              command: target,
              args: ['serve', '--stdio', '--workspace', project],
              env: process.env,
              stderr: 'ignore',
          });
await client.connect(transport);

let checks = 0;
const text = (result) => result.content.map((block) => block.text ?? '').join('\n');
async function call(name, args, options) {
    checks += 1;
    return client.callTool({ name, arguments: args }, options);
}

// Every server is behind the gateway, under its own name.
const listed = [];
let cursor;
do {
    const page = await client.listTools(cursor ? { cursor } : undefined);
    listed.push(...page.tools);
    cursor = page.nextCursor;
} while (cursor);
const names = listed.map((tool) => tool.name);
for (const name of ['everything__echo', 'files__read_text_file', 'memory__create_entities', 'time__get_current_time', 'read_file']) {
    assert.ok(names.includes(name), `${name} is missing in ${names}`);
}
assert.ok(!names.includes('everything__get-env'), 'a denied tool is not listed');
assert.equal(new Set(names).size, names.length);

// One call of each.
assert.match(text(await call('everything__echo', { message: 'hello' })), /hello/);
assert.match(text(await call('files__read_text_file', { path: `${project}/notes/today.txt` })), /beans/);
assert.match(text(await call('time__get_current_time', { timezone: 'Europe/Paris' })), /Paris/);
const sum = await call('everything__get-sum', { a: 2, b: 3 });
assert.match(text(sum), /5/);
const image = await call('everything__get-tiny-image', {});
assert.ok(image.content.some((block) => block.type === 'image'), `an image passes the gateway: ${text(image)}`);
const structured = await call('everything__get-structured-content', { location: 'New York' });
assert.ok(structured.structuredContent, 'structured content passes the gateway');

// The confined server writes where it may, and reads no secret.
await call('files__write_file', { path: `${project}/notes/new.txt`, content: 'written' });
assert.match(text(await call('files__read_text_file', { path: `${project}/notes/new.txt` })), /written/);
const secret = await call('files__read_text_file', { path: process.env.HAFT_SECRET_FILE });
assert.ok(secret.isError && !text(secret).includes('hunter2'));

// Mistakes and denials are results that a model can read; an unknown tool is an error.
const wrong = await call('everything__echo', { mesage: 'x' });
assert.ok(wrong.isError && text(wrong).includes('message'), text(wrong));
assert.ok((await call('everything__get-env', {})).isError);
await assert.rejects(() => call('everything__nothing', {}));

// A rule asks: the user of the client decides.
const entity = { entities: [{ name: `ts-${version}-${transportName}`, entityType: 'test', observations: ['x'] }] };
decision = 'deny';
assert.ok((await call('memory__create_entities', entity)).isError);
decision = 'allow';
const created = await call('memory__create_entities', entity);
assert.ok(!created.isError, text(created));
assert.equal(questions.length, 2, 'one question for each call');
assert.match(questions[0], /memory__create_entities/);
assert.match(text(await call('memory__read_graph', {})), new RegExp(`ts-${version}-${transportName}`));

// Progress reaches the client. If the last note and the result come in one read, the SDK has
// dropped its handler before it runs it, and reports the note as an error: it arrived all the same.
const progress = [];
client.onerror = (error) => {
    const late = /progress notification for an unknown token: (.*)$/s.exec(error.message);
    if (late) progress.push(JSON.parse(late[1]).params.progress);
};
const long = await call(
    'everything__trigger-long-running-operation',
    { duration: 1, steps: 3 },
    // The SDK adds a note of its own for each question; it has no total.
    { onprogress: (note) => note.total && progress.push(note.progress) },
);
assert.ok(!long.isError, text(long));
await new Promise((resolve) => setImmediate(resolve));
assert.equal(progress.length, 3, `progress: ${progress}`);

// Resources and prompts are passed on under their prefix.
const { resources } = await client.listResources();
const one = resources.find((resource) => resource.uri.startsWith('haft://everything/'));
assert.ok(one, `no resource of the server in ${resources.map((r) => r.uri)}`);
const read = await client.readResource({ uri: one.uri });
assert.ok(read.contents.length > 0);
const { prompts } = await client.listPrompts();
assert.ok(prompts.some((prompt) => prompt.name.startsWith('everything__')), 'no prompt of the server');
const prompt = await client.getPrompt({ name: 'everything__simple-prompt' });
assert.ok(prompt.messages.length > 0);

await client.close();
console.log(`${names.length} tools, ${checks} calls`);
process.exit(0);
