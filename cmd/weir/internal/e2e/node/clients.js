// What the stock Redis clients of Node say to weir serve --resp, and hear from
// it: node clients.js PORT. It prints nothing, or throws.
const assert = require("node:assert/strict");
const Redis = require("ioredis");
const { createClient } = require("redis");

const port = Number(process.argv[2]);
const check = ["edge", "1", "route", "export", "api_key"];

async function nodeRedis(protocol) {
	const client = createClient({ socket: { host: "127.0.0.1", port }, RESP: protocol });
	client.on("error", (err) => { throw err; });
	await client.connect();
	const key = `redis${protocol}`;
	assert.equal(await client.ping(), "PONG");
	assert.deepEqual(await client.sendCommand(["CL.THROTTLE", key, "1", "1", "60"]), [0, 2, 1, -1, 60]);
	assert.deepEqual(await client.sendCommand(["CL.THROTTLE", key, "1", "1", "60", "2"]), [1, 2, 1, 60, 60]);

	// A pipeline: commands of one tick leave together.
	const answers = await Promise.all(Array.from({ length: 7 }, () => client.sendCommand(["WEIR.CHECK", ...check, key])));
	assert.deepEqual(answers.map(([limited]) => limited), [0, 0, 0, 0, 0, 1, 1]);
	assert.deepEqual(answers[5], [1, 5, 0, 720, 3600, "exports"]);
	await assert.rejects(client.sendCommand(["GET", key]), /unknown command 'GET'/);
	assert.equal(await client.ping(), "PONG"); // an error ends nothing
	await client.close();
}

async function ioredis(options) {
	const client = new Redis(port, "127.0.0.1", options);
	const key = "io" + JSON.stringify(options);
	assert.deepEqual(await client.call("CL.THROTTLE", key, 0, 1, 60), [0, 1, 0, -1, 60]);
	assert.deepEqual(await client.call("CL.THROTTLE", key, 0, 1, 60), [1, 1, 0, 60, 60]);

	const pipeline = client.pipeline();
	for (let i = 0; i < 1000; i++) pipeline.call("WEIR.CHECK", ...check, key);
	const answers = await pipeline.exec();
	assert.equal(answers.length, 1000);
	assert.equal(answers.filter(([err, answer]) => err === null && answer[0] === 0).length, 5);
	await assert.rejects(client.call("CL.THROTTLE", key, 0, 0, 60), /count must be an integer/);
	await client.quit();
}

(async () => {
	await nodeRedis(2);
	await nodeRedis(3);
	await ioredis({});
	await ioredis({ enableAutoPipelining: true });
})().catch((err) => {
	console.error(err);
	process.exit(1);
});
