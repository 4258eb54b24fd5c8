// What skill.schema.json says of SKILL.md files, by ajv and yaml from npm.
// Usage: node t/schema.js MODULES SCHEMA DIR...; one line a directory: accept,
// reject and where, or unreadable and why.
"use strict";
const fs = require("fs");
const path = require("path");

const [modules, schema, ...dirs] = process.argv.slice(2);
const load = (name) => require(path.join(modules, "node_modules", name));
const Ajv = load("ajv/dist/2020").default;
const YAML = load("yaml");

const ajv = new Ajv({ strict: true, allErrors: true, allowUnionTypes: true });
const validate = ajv.compile(JSON.parse(fs.readFileSync(schema, "utf8")));

// The value between the fences, or an exception.
function frontmatter(file) {
	const bytes = fs.readFileSync(file);
	const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
	const cut = /^---[ \t]*\r?\n(?:([^]*?)\r?\n)?---[ \t]*(?:\r?\n|$)/.exec(text);
	if (cut === null)
		throw new Error("no fences");
	const doc = YAML.parseDocument(cut[1] ?? "", {
		version: "1.2", schema: "core", uniqueKeys: true, strict: true,
		stringKeys: false, logLevel: "error",
	});
	if (doc.errors.length > 0)
		throw doc.errors[0];
	return doc.toJS({ maxAliasCount: 0 });
}

function verdict(dir) {
	let value;
	try {
		value = frontmatter(path.join(dir, "SKILL.md"));
	} catch (e) {
		return `unreadable ${e.message.split("\n")[0]}`;
	}
	if (validate(value))
		return "accept";
	return "reject " + validate.errors.map((e) =>
		`${e.instancePath || "/"} ${e.keyword}`).join(", ");
}

for (const dir of dirs)
	console.log(verdict(dir));
