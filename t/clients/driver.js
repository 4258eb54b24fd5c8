#!/usr/bin/env -S MALLOC_ARENA_MAX=1 node --jitless --no-expose-wasm
'use strict';
/* The conformance driver for skills in Node; see t/73-clients.t. */

const fs = require('fs');
const cyberos = require('./cyberos.js');

function show(result, field) {
	if (field.startsWith('#'))
		return `done ${cyberos.body(result, field.slice(1)).length}`;
	if (field === 'body' || field === 'stdout')
		return `done ${cyberos.body(result, field).toString('hex')}`;
	return `done ${result[field]}`;
}

async function ask(broker, tool, field, args) {
	try {
		return show(await broker.call(tool, args), field);
	} catch (e) {
		if (e instanceof cyberos.Refused)
			return `refused ${e.group}` +
				(e.reason === e.group ? '' : ` ${e.reason}`);
		if (e instanceof cyberos.Failed)
			return `failed ${e.word}`;
		if (e instanceof cyberos.BadArguments)
			return 'arguments';
		if (e instanceof cyberos.Gone)
			return 'gone';
		throw e;
	}
}

/* The client is not closed: nothing waits, so Node may end. */
async function cases() {
	const broker = await cyberos.connect();
	for (const line of fs.readFileSync(0, 'utf8').trimEnd().split('\n')) {
		const [tool, field, file] = line.split('\t');
		console.log(await ask(broker, tool, field,
			JSON.parse(fs.readFileSync(file, 'utf8'))));
	}
}

async function one() {
	try {
		const broker = await cyberos.connect();
		console.log(await ask(broker, 'Read', 'body', { path: 'x' }));
		broker.close();
	} catch (e) {
		console.log(e instanceof cyberos.Gone ? 'gone' : e);
	}
}

/* Two calls over one connection; the second lets the first end. */
async function both(place) {
	const broker = await cyberos.connect();
	const slow = broker.call('Bash', {
		cmd: `until [ -e ${place}/go ]; do sleep 0.01; done; sleep 0.3`,
		timeout_ms: 60000,
	});
	console.log(await ask(broker, 'Write', 'bytes',
		{ path: `${place}/go`, body: '' }));
	console.log(`slow ${(await slow).timed_out}`);
}

function words() {
	for (const [key, kind] of cyberos.refusals) {
		const e = new kind(...key.split(' ').slice(0, 1));
		if (!(e instanceof cyberos.Refused) || e.name !== kind.name)
			throw new Error(key);
		console.log(key);
	}
	for (const word of cyberos.failures.keys())
		console.log(`- ${word}`);
}

({ cases, one, both, words })[process.argv[2]](process.argv[3]);
