# A fake MCP server over standard input and output. Each of its tools misbehaves as its name says; the
# first argument says how the server itself does.
import json, os, sys, time, random

MODE = sys.argv[1] if len(sys.argv) > 1 else ''


def send(message):
    sys.stdout.write(json.dumps({'jsonrpc': '2.0', **message}, separators=(',', ':')) + '\n')
    sys.stdout.flush()


def text(words, **more):
    return {'content': [{'type': 'text', 'text': words}], **more}


def tool(name, **more):
    schema = {'type': 'object', 'properties': {'text': {'type': 'string'}}, 'additionalProperties': False}
    return {'name': name, 'description': 'the tool ' + name, 'inputSchema': schema, **more}


NUMBER = {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}
TOOLS = [
    tool('echo'), tool('fails'), tool('structured', outputSchema=NUMBER), tool('misfit', outputSchema=NUMBER),
    tool('never'), tool('exits'), tool('floods'), tool('twice'), tool('asks'), tool('junk'), tool('other'),
    tool('forks'), tool('secret'), tool('count'), tool('pings'),
]


def listed():
    if MODE == 'changing':
        return [tool('echo', description='the tool echo ' + str(random.random()))]
    if MODE == 'doubling':
        return [tool('echo'), tool('echo', title='another')]
    if MODE == 'long':
        return [tool('t%d' % i, description='x' * 8000) for i in range(200)]
    return TOOLS


def call(id, name, args):
    answer = lambda result: send({'id': id, 'result': result})
    if name == 'echo':
        sys.stderr.write('echoing\n')
        send({'method': 'notifications/message', 'params': {'level': 'info', 'data': 'working'}})
        answer(text(args.get('text', ''), _meta={'steer': 'model'}))
    elif name == 'fails':
        answer(text('it failed', isError=True))
    elif name == 'structured':
        answer(text('unused', structuredContent={'n': 7}))
    elif name == 'misfit':
        answer(text('unused', structuredContent={'n': 'seven'}))
    elif name == 'never':
        time.sleep(600)
    elif name == 'exits':
        os._exit(3)
    elif name == 'floods':
        block = 'x' * 1048576
        sys.stdout.write('{"jsonrpc":"2.0","result":"')
        for _ in range(100):
            sys.stdout.write(block)
        sys.stdout.write('"}\n')
        sys.stdout.flush()
    elif name == 'twice':
        answer(text('first'))
        answer(text('second'))
    elif name == 'asks':
        send({'id': 1, 'method': 'sampling/createMessage', 'params': {}})
        time.sleep(600)
    elif name == 'junk':
        sys.stdout.write('Starting the server...\n')
        answer(text('after junk'))
    elif name == 'other':
        send({'id': 'another', 'result': text('x')})
    elif name == 'forks':
        if os.fork() == 0:
            os.setsid()
            while True:
                time.sleep(0.05)
        answer(text('forked'))
    elif name == 'secret':
        answer(text(open('/run/secrets/' + args['text']).read()))
    elif name == 'count':
        path = '/workspace/count'
        n = int(open(path).read()) if os.path.exists(path) else 0
        open(path, 'w').write(str(n + 1))
        answer(text(str(n + 1)))
    elif name == 'pings':
        send({'id': 9, 'method': 'ping'})
        answer(text('after a ping'))


if MODE == 'silent':
    time.sleep(600)
if MODE == 'banner':
    print('Welcome!', flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message['method'], message.get('id')
    if method == 'initialize':
        if MODE == 'dies':
            print('first\nno file \x1b[31m`a`', file=sys.stderr, flush=True)
            os._exit(7)
        if MODE == 'asks-first':
            send({'id': 1, 'method': 'roots/list', 'params': {}})
        info = {'name': 'fake', 'version': '1'}
        send({'id': id, 'result': {'protocolVersion': '2025-11-25', 'capabilities': {'tools': {}}, 'serverInfo': info}})
    elif method == 'tools/list':
        tools, at = listed(), int(message['params'].get('cursor', '0'))
        page = {'tools': tools[at:at + 100]}
        send({'id': id, 'result': {**page, **({'nextCursor': str(at + 100)} if at + 100 < len(tools) else {})}})
        if MODE == 'deaf':
            time.sleep(600)
    elif method == 'tools/call':
        call(id, message['params']['name'], message['params']['arguments'])
