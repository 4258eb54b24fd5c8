#!/usr/bin/env node
// An OTLP receiver for the tests. It decodes what comes with the protobuf
// classes of an npm package that nobody here wrote, and answers as a script
// says. Usage: otlp.js DIR [MODULES] [PORT], where MODULES is the directory
// that holds node_modules ("" for none: then payloads are only read as JSON).
//
// DIR/port: where it listens. DIR/script: how to answer, a line for each request,
// the last one for all that follow: "200", "200 empty", "partial N [text]", "429
// SECONDS", "503", "hang", "close", "big", "junk", "moved URL", any status.
// DIR/requests: a line of JSON for each request. DIR/bodies: the payloads, a line
// each. With a file as DIR it checks its lines and prints what is wrong.
'use strict';
const fs = require('fs');
const http = require('http');
const https = require('https');
const path = require('path');
const zlib = require('zlib');

const [dir, modules, port] = process.argv.slice(2);
let proto = null;
if (modules) {
	const root = require(path.join(modules,
	    'node_modules/@opentelemetry/otlp-transformer/build/src/generated/root.js'));
	proto = root.opentelemetry.proto.collector;
}

const NS = /^(start|end|time)?(t|T)imeUnixNano$|^intValue$|^asInt$|^count$|^bucketCounts$/;
const IDS = { traceId: 32, spanId: 16, parentSpanId: 16 };
const ENUMS = { kind: 5, code: 2, aggregationTemporality: 2 };

// (a) the text itself: ids, enums, 64-bit numbers, names, nulls. (b) hex ids
// become base64, since the classes take strings for bytes as that.
function walk(at, where, problems) {
	if (at === null)
		problems.push(where + ': null');
	if (at === null || typeof at !== 'object')
		return at;
	if (Array.isArray(at))
		return at.map((v, i) => walk(v, where + '[' + i + ']', problems));
	const out = {};
	for (const [name, value] of Object.entries(at)) {
		const here = where + '.' + name;
		if (name.includes('_'))
			problems.push(here + ': a name with an underscore');
		if (IDS[name]) {
			if (!(name === 'parentSpanId' && value === '') &&
			    (!new RegExp('^[0-9a-f]{' + IDS[name] + '}$').test(value) ||
			    /^0*$/.test(value)))
				problems.push(here + ': is no id: ' + value);
			out[name] = Buffer.from(String(value), 'hex').toString('base64');
			continue;
		}
		if (ENUMS[name] && (!Number.isInteger(value) || value < 0 ||
		    value > ENUMS[name]))
			problems.push(here + ': is no number of an enum');
		if (NS.test(name))
			for (const v of [].concat(value))
				if (typeof v !== 'string' || !/^-?[0-9]+$/.test(v))
					problems.push(here + ': is no 64-bit number as text');
		out[name] = walk(value, here, problems);
	}
	return out;
}

function leaves(at, where, out) {
	if (at !== null && typeof at === 'object') {
		for (const [name, value] of Object.entries(at))
			leaves(value, where + '.' + name, out);
		if (Object.keys(at).length === 0 && !Array.isArray(at))
			out.push(where);
	} else {
		out.push(where);
	}
	return out;
}

function has(at, where) {
	for (const name of where.split('.').slice(1)) {
		if (at === null || typeof at !== 'object' || !(name in at))
			return false;
		at = at[name];
	}
	return true;
}

// (c) through the classes and back; (d) nothing is lost on the way.
function decode(json, type, problems) {
	const message = type.decode(type.encode(type.fromObject(json)).finish());
	const back = type.toObject(message,
	    { longs: String, bytes: String, defaults: false });
	for (const where of leaves(json, '', []))
		if (!has(back, where))
			problems.push(where + ': is not known there');
	return back;
}

function attributes(list, where, problems) {
	const out = {};
	for (const a of list || []) {
		if (a.key in out)
			problems.push(where + ': twice ' + a.key);
		out[a.key] = Object.values(a.value)[0];
	}
	return out;
}

// (e) what it means.
function meaning(json, problems) {
	let spans = 0;
	for (const rs of json.resourceSpans || json.resourceMetrics || [])
		if (!attributes(rs.resource.attributes, 'resource', problems)['service.name'])
			problems.push('no service.name');
	for (const rs of json.resourceSpans || [])
		for (const ss of rs.scopeSpans)
			for (const s of ss.spans) {
				spans++;
				attributes(s.attributes, s.name, problems);
				if (BigInt(s.endTimeUnixNano) < BigInt(s.startTimeUnixNano))
					problems.push(s.name + ': ends before it starts');
				if (s.status && s.status.message && s.status.code !== 2)
					problems.push(s.name + ': a message without an error');
			}
	for (const rm of json.resourceMetrics || [])
		for (const sm of rm.scopeMetrics)
			for (const m of sm.metrics)
				metric(m, problems);
	return spans;
}

function metric(m, problems) {
	const kind = m.sum || m.histogram || m.gauge;
	if (!kind) {
		problems.push(m.name + ': of no kind');
		return;
	}
	if (!m.gauge && kind.aggregationTemporality !== 2)
		problems.push(m.name + ': is not cumulative');
	const seen = new Set();
	for (const p of kind.dataPoints) {
		const key = JSON.stringify(attributes(p.attributes, m.name, problems));
		if (seen.has(key))
			problems.push(m.name + ': a point twice ' + key);
		seen.add(key);
		if (!m.gauge && !p.startTimeUnixNano)
			problems.push(m.name + ': does not say since when');
		if (p.startTimeUnixNano &&
		    BigInt(p.startTimeUnixNano) > BigInt(p.timeUnixNano))
			problems.push(m.name + ': starts after its time');
		if (!m.histogram)
			continue;
		const sum = p.bucketCounts.reduce((a, b) => a + BigInt(b), 0n);
		if (p.bucketCounts.length !== p.explicitBounds.length + 1 ||
		    sum !== BigInt(p.count))
			problems.push(m.name + ': buckets do not add up');
		for (let i = 1; i < p.explicitBounds.length; i++)
			if (p.explicitBounds[i] <= p.explicitBounds[i - 1])
				problems.push(m.name + ': bounds do not rise');
	}
}

function check(text, metrics) {
	const problems = [];
	let spans = 0;
	try {
		const json = JSON.parse(text);
		const plain = walk(json, '', problems);
		if (proto)
			decode(plain, metrics
			    ? proto.metrics.v1.ExportMetricsServiceRequest
			    : proto.trace.v1.ExportTraceServiceRequest, problems);
		spans = meaning(json, problems);
	} catch (e) {
		problems.push(String(e));
	}
	return { spans, problems };
}

if (fs.statSync(dir).isFile()) {
	let spans = 0;
	for (const line of fs.readFileSync(dir, 'utf8').split('\n')) {
		if (line === '')
			continue;
		const c = check(line, line.startsWith('{"resourceMetrics"'));
		spans += c.spans;
		for (const p of c.problems)
			console.log(p);
	}
	console.log(spans);
	process.exit(0);
}

let served = 0;
function next() {
	const lines = fs.readFileSync(path.join(dir, 'script'), 'utf8')
	    .split('\n').filter((l) => l !== '');
	return (lines[Math.min(served++, lines.length - 1)] || '200').split(' ');
}

function answer(response, body, how) {
	const json = { 'Content-Type': 'application/json' };
	switch (how[0]) {
	case 'partial':
		response.writeHead(200, json);
		response.end(JSON.stringify({ partialSuccess: {
			rejectedSpans: how[2] === 'text' ? how[1] : Number(how[1]),
			errorMessage: how[2] === 'empty' ? '' : 'peer-text' } }));
		break;
	case '429':
		response.writeHead(429, how[1] ? { 'Retry-After': how[1] } : {});
		response.end('peer-text');
		break;
	case 'hang':
		break;
	case 'hold': {
		const held = setInterval(() => {
			if (fs.existsSync(path.join(dir, 'go'))) {
				clearInterval(held);
				response.writeHead(200, json);
				response.end('{}');
			}
		}, 20);
		break;
	}
	case 'close':
		response.socket.destroy();
		break;
	case 'big':
		response.writeHead(200, json);
		response.end('x'.repeat(1 << 20));
		break;
	case 'junk':
		response.socket.end('nonsense\r\n\r\n');
		break;
	case 'moved':
		response.writeHead(302, { Location: how[1] });
		response.end();
		break;
	default:
		response.writeHead(Number(how[0]), json);
		response.end(how[1] === 'empty' ? '' : '{}');
	}
}

function serve(request, response) {
	const parts = [];
	request.on('data', (d) => parts.push(d));
	request.on('end', () => {
		const raw = Buffer.concat(parts);
		const gzip = request.headers['content-encoding'] === 'gzip';
		const text = (gzip ? zlib.gunzipSync(raw) : raw).toString('utf8');
		const metrics = request.url.endsWith('metrics');
		const how = next();
		const c = check(text, metrics);
		fs.appendFileSync(path.join(dir, 'requests'), JSON.stringify({
			path: request.url, method: request.method, how: how[0],
			headers: request.headers, bytes: raw.length, at: Date.now(),
			...c }) + '\n');
		fs.appendFileSync(path.join(dir, 'bodies'),
		    JSON.stringify({ how: how[0], body: JSON.parse(text) }) + '\n');
		answer(response, raw, how);
	});
}

// With DIR/tls.key and DIR/tls.pem it speaks TLS, and asks for a certificate by
// the authority of DIR/client-ca.pem if there is one.
const file = (name) => fs.existsSync(path.join(dir, name)) ?
    fs.readFileSync(path.join(dir, name)) : undefined;
const server = file('tls.key') ? https.createServer({
	key: file('tls.key'), cert: file('tls.pem'), ca: file('client-ca.pem'),
	requestCert: !!file('client-ca.pem'),
	rejectUnauthorized: !!file('client-ca.pem') }, serve) :
    http.createServer(serve);
server.listen(Number(port || 0), '127.0.0.1', function () {
	fs.writeFileSync(path.join(dir, 'port.new'), this.address().port + '\n');
	fs.renameSync(path.join(dir, 'port.new'), path.join(dir, 'port'));
});
setInterval(() => process.ppid === 1 && process.exit(0), 500);
