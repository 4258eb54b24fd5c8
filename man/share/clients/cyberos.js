'use strict';
/*
 * The capability broker's client for skills in Node 16 or later.
 *
 * Copy this file beside the skill's main; it needs nothing else.
 *
 *     #!/usr/bin/env -S MALLOC_ARENA_MAX=1 node --jitless --no-expose-wasm
 *     const cyberos = require('./cyberos.js');
 *     (async () => {
 *         const broker = await cyberos.connect();
 *         const { body } = await broker.call('MemoryRead', { path: 'memories/a' });
 *         await broker.call('Write', { path: '/srv/out.txt', body })
 *             .catch((e) => console.error(e.name, e.hint));
 *         broker.close();
 *     })();
 *
 * Every answer that is no result is an exception: Refused (the grant does not
 * have it; a subclass for each class and reason), Failed (the tool ran and
 * failed; a subclass for each word), BadArguments, or Gone (there is no
 * broker). Calls may be at work at the same time. See cyberos-client(7).
 *
 * Without these options Node wants more than the 512 MiB of address space that
 * a skill has by default.
 *
 * SPDX-License-Identifier: ISC
 */

const net = require('net');

const REQUEST_MAX = 1048576; /* what the broker takes; it refuses more */
const SEND_MAX = 16 * 1024 * 1024; /* more is not even sent */
const ANSWER_MAX = 17 * 1024 * 1024;
const DEPTH_MAX = 62; /* levels from "params" on; the broker's 64 begin above */

class CyberosError extends Error {
	constructor(message) {
		super(message);
		this.name = new.target.name;
	}
}

/** No broker, or its connection is lost or no longer understood. */
class Gone extends CyberosError {}

/** The call is malformed: which argument, and why, is the message. */
class BadArguments extends CyberosError {
	constructor(message, code = -32602) {
		super(message);
		this.code = code;
	}
}

/** The tool was allowed, ran and failed. */
class Failed extends CyberosError {
	constructor(word, detail = '') {
		super(detail ? `${word}: ${detail}` : word);
		this.word = word;
		this.detail = detail;
	}
}

/** The call was refused; nothing ran. */
class Refused extends CyberosError {
	constructor(group, data = {}) {
		const reason = text(data.reason) || group;
		const word = reason === group ? group : `${group} (${reason})`;
		super(text(data.hint) ? `${word}: ${data.hint}` : word);
		this.group = group; /* the class: "file_violation" */
		this.reason = reason; /* "protected" */
		this.hint = text(data.hint); /* what the author could change */
		this.tool = text(data.tool);
		this.retryAfterMs = Number.isInteger(data.retry_after_ms) ?
			data.retry_after_ms : null;
	}
}

/* The classes of refusals, and their reasons that have another word. */
const GROUPS = {
	rate_limited: {},
	unknown_tool: {},
	tool_not_allowed: {
		tool_in_disallowed_tools: 'ToolInDisallowedTools',
		tool_not_in_allowed_tools: 'ToolNotInAllowedTools',
		ceiling: 'ToolCeiling',
	},
	scope_violation: { ceiling: 'ScopeCeiling' },
	file_violation: {
		ceiling: 'FileCeiling',
		protected: 'Protected',
		hard_link: 'HardLink',
		privileged_file: 'PrivilegedFile',
	},
	domain_violation: {
		ceiling: 'DomainCeiling',
		address_not_public: 'AddressNotPublic',
	},
	request_too_large: {},
	deadline: {},
	audit_unavailable: {},
	audit_budget: {},
};

const WORDS = [
	'not_found', 'exists', 'is_a_directory', 'permission', 'too_large',
	'not_unique', 'timeout', 'cancelled', 'no_space', 'io_error',
	'invalid_pattern', 'too_complex', 'http_error', 'tls_error',
	'resolve_error', 'connect_error',
];

/* A subclass with a name of its own. */
const named = (name, base) => ({ [name]: class extends base {} })[name];
const camel = (word) => word.replace(/(^|_)([a-z])/g,
	(_, line, letter) => letter.toUpperCase());

const errors = { CyberosError, Gone, BadArguments, Failed, Refused };
const groups = new Map(); /* class; for what a later broker adds to it */
const refusals = new Map(); /* "class reason" */
const failures = new Map(); /* word */

for (const [group, reasons] of Object.entries(GROUPS)) {
	const base = named(camel(group), Refused);
	errors[base.name] = base;
	groups.set(group, base);
	if (group !== 'tool_not_allowed') /* its reasons have other words */
		refusals.set(`${group} ${group}`, base);
	for (const [reason, name] of Object.entries(reasons)) {
		errors[name] = named(name, base);
		refusals.set(`${group} ${reason}`, errors[name]);
	}
}
for (const word of WORDS) {
	errors[camel(word)] = named(camel(word), Failed);
	failures.set(word, errors[camel(word)]);
}

function text(value) {
	return typeof value === 'string' ? value : '';
}

/** The body of a result, or its stdout or stderr, as a Buffer. */
function body(result, name = 'body') {
	return Buffer.from(result[name],
		result.encoding === 'base64' ? 'base64' : 'utf8');
}

/* The exception for an error object of JSON-RPC. */
function exception(error) {
	const { code, message, data } = error || {};
	const word = text(message);
	const more = data !== null && typeof data === 'object' ? data : {};

	if (code === -32603) {
		const Kind = refusals.get(`${word} ${text(more.reason) || word}`) ||
			groups.get(word) || Refused;
		return new Kind(word, more);
	}
	if (code === -32000)
		return new (failures.get(word) || Failed)(word, text(more.detail));
	return new BadArguments(text(more.detail) || word, code);
}

/* No half of a surrogate pair: Node 20 can tell. */
function isWellFormed(value) {
	if (typeof value.isWellFormed === 'function')
		return value.isWellFormed();
	try {
		return encodeURIComponent(value) !== null;
	} catch {
		return false;
	}
}

/* What JSON.stringify writes and the broker does not take, or changes. */
function check(value, depth = 0) {
	if (depth > DEPTH_MAX && typeof value === 'object' && value !== null)
		throw new BadArguments('the arguments are nested too deeply');
	if (typeof value === 'string') {
		if (value.includes('\0'))
			throw new BadArguments(
				'a text holds a NUL; send bytes as a Buffer');
		if (!isWellFormed(value))
			throw new BadArguments('a text holds half a surrogate pair');
	} else if (typeof value === 'number') {
		if (!Number.isFinite(value) || (Number.isInteger(value) &&
		    !Number.isSafeInteger(value)))
			throw new BadArguments(`${value} is beyond 2^53`);
	} else if (value !== null && typeof value === 'object') {
		for (const [name, of] of Object.entries(value)) {
			check(name, depth);
			check(of, depth + 1);
		}
	} else if (typeof value !== 'boolean' && value !== null &&
	    value !== undefined) {
		throw new BadArguments(`a ${typeof value} is no JSON`);
	}
}

/** One connection to the broker, for any number of calls. */
class Client {
	constructor(socket) {
		this._socket = socket;
		this._last = 0;
		this._waiting = new Map(); /* id: { resolve, reject, size } */
		this._gone = null;
		this._in_head = true;
		this._part = Buffer.alloc(4); /* what is being read, */
		this._have = 0; /* and how many bytes of it are there */
		socket.on('data', (chunk) => this._take(chunk));
		socket.on('error', (e) => this._lose(e.message));
		socket.on('close', () => this._lose(
			'the broker has closed the connection'));
		socket.unref(); /* it keeps nobody alive but while calls wait */
	}

	/**
	 * Call a tool. A body that is a Buffer or Uint8Array goes as base64.
	 * The promise is of the tool's result.
	 */
	async call(tool, args = {}, { traceparent, tracestate } = {}) {
		const whole = { ...args };
		if (whole.body instanceof Uint8Array) {
			whole.body = Buffer.from(whole.body.buffer,
				whole.body.byteOffset,
				whole.body.byteLength).toString('base64');
			whole.encoding = whole.encoding ?? 'base64';
		}
		return this._ask('tool.call',
			{ tool, args: whole, traceparent, tracestate });
	}

	/** The tools that this skill may call: name, description, inputSchema. */
	async tools() {
		return (await this._ask('tool.list')).tools;
	}

	/** invocation_id, skill_id, version, uptime_ms, remaining_ms, ... */
	async status() {
		return this._ask('broker.status');
	}

	/** Hang up; calls that still wait are Gone. */
	close() {
		this._lose('closed');
	}

	async _ask(method, params) {
		check(params);
		if (this._gone !== null)
			throw new Gone(this._gone);
		const id = ++this._last;
		const request = Buffer.from(JSON.stringify(
			{ jsonrpc: '2.0', id, method, params }));
		if (request.length > SEND_MAX)
			throw new errors.RequestTooLarge('request_too_large', {
				hint: `send at most ${REQUEST_MAX} bytes in one request`,
			});
		const head = Buffer.alloc(4);
		head.writeUInt32BE(request.length);
		return new Promise((resolve, reject) => {
			this._waiting.set(id,
				{ resolve, reject, size: request.length });
			this._socket.ref();
			this._socket.cork();
			this._socket.write(head);
			this._socket.write(request);
			this._socket.uncork();
		});
	}

	/* Bytes have come: part is filled, a length and then an answer. */
	_take(chunk) {
		let at = 0;
		while (this._gone === null) {
			const n = chunk.copy(this._part, this._have, at);
			at += n;
			this._have += n;
			if (this._have < this._part.length)
				return;
			this._whole(this._part);
		}
	}

	_whole(part) {
		const length = this._in_head ? part.readUInt32BE() : 4;
		if (!this._in_head)
			this._file(part);
		else if (length > ANSWER_MAX)
			return this._lose(`an answer of ${length} bytes`);
		this._in_head = !this._in_head;
		this._part = Buffer.alloc(length);
		this._have = 0;
	}

	_file(bytes) {
		let answer;
		try {
			answer = JSON.parse(bytes.toString());
		} catch {
			answer = null;
		}
		if (answer === null || typeof answer !== 'object')
			return this._lose('an answer that is no object');
		const id = answer.id ?? this._anonymous(answer);
		const call = this._waiting.get(id);
		if (call === undefined)
			return this._lose('an answer to no request of ours');
		this._waiting.delete(id);
		if (this._waiting.size === 0)
			this._socket.unref();
		if (answer.error !== undefined)
			return call.reject(exception(answer.error));
		if (answer.result !== null && typeof answer.result === 'object')
			return call.resolve(answer.result);
		call.reject(new Gone('an answer without a result'));
		return this._lose('an answer without a result');
	}

	/* Whose answer has no id: what was too large to be read has none. */
	_anonymous(answer) {
		let ids = [...this._waiting.keys()];
		if (answer.error && answer.error.message === 'request_too_large')
			ids = ids.filter((id) =>
				this._waiting.get(id).size > REQUEST_MAX).slice(0, 1);
		return ids.length === 1 ? ids[0] : undefined;
	}

	/* No call can be made any more; whoever waits is told. */
	_lose(why) {
		if (this._gone !== null)
			return;
		this._gone = why;
		this._socket.destroy();
		for (const { reject } of this._waiting.values())
			reject(new Gone(why));
		this._waiting.clear();
	}
}

/** A client of the broker at path, by default $CYBEROS_BROKER_SOCKET. */
function connect(path = process.env.CYBEROS_BROKER_SOCKET) {
	return new Promise((resolve, reject) => {
		if (!path) {
			reject(new Gone('CYBEROS_BROKER_SOCKET is not set: ' +
				'this is for skills, inside the sandbox'));
			return;
		}
		const socket = net.connect({ path });
		const failed = (e) => reject(new Gone(`${path}: ${e.message}`));
		socket.once('error', failed);
		socket.once('connect', () => {
			socket.off('error', failed);
			resolve(new Client(socket));
		});
	});
}

module.exports = { connect, body, Client, refusals, failures, ...errors };
