// What the stock gRPC client of Node says to weir serve, and hears from it: grpcjs.js ADDRESS MESSAGE-IN-HEX. Once it
// has said so, it calls until its input ends, while the daemon may be replaced by another at the same address. It
// prints how many calls were answered meanwhile, or throws.
const assert = require("node:assert/strict");
const grpc = require("@grpc/grpc-js");

const [address, hex] = process.argv.slice(2);
const message = Buffer.from(hex, "hex");
const client = new grpc.Client(address, grpc.credentials.createInsecure(), {
	"grpc.initial_reconnect_backoff_ms": 20, "grpc.max_reconnect_backoff_ms": 100,
});
const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const same = (b) => b; // bytes in, bytes out

function call({ path = method, body = message, metadata = new grpc.Metadata(), options = {}, begun = () => {} } = {}) {
	return new Promise((resolve, reject) => {
		const all = { deadline: Date.now() + 60_000, ...options };
		begun(client.makeUnaryRequest(path, same, same, body, metadata, all, (err, answer) => (err ? reject(err) : resolve(answer))));
	});
}

const passed = (answer) => answer[0] === 8 && answer[1] === 1;
const fails = (promise, code) => assert.rejects(promise, (err) => err.code === code);

async function main() {
	assert(passed(await call()));

	// Metadata of all kinds is no reason to refuse a call.
	const metadata = new grpc.Metadata();
	metadata.set("x-text", "a, b; c");
	metadata.set("x-bytes-bin", Buffer.from([0, 255, 10, 13]));
	metadata.set("x-large", "y".repeat(8000));
	for (let i = 0; i < 3; i++) assert(passed(await call({ metadata })));
	metadata.set("x-too-large", "y".repeat(20_000));
	await assert.rejects(call({ metadata }));

	// Deadlines: one that is over asks nothing, and a short one hurts no other call.
	await fails(call({ options: { deadline: Date.now() - 1 } }), grpc.status.DEADLINE_EXCEEDED);
	const late = Array.from({ length: 100 }, () => call({ options: { deadline: Date.now() + 1 } }).then(() => grpc.status.OK, (err) => err.code));
	for (const code of await Promise.all(late)) assert([grpc.status.OK, grpc.status.DEADLINE_EXCEEDED, grpc.status.UNAVAILABLE].includes(code), code);

	// Cancelled calls end so, others of the same tick as they should.
	const cancelled = Array.from({ length: 100 }, () => fails(call({ begun: (c) => c.cancel() }), grpc.status.CANCELLED));
	const kept = Array.from({ length: 100 }, () => call());
	await Promise.all(cancelled);
	assert((await Promise.all(kept)).every(passed));

	// 1,000 calls in flight.
	assert((await Promise.all(Array.from({ length: 1000 }, () => call()))).every(passed));

	await fails(call({ path: "/envoy.service.ratelimit.v3.RateLimitService/None" }), grpc.status.UNIMPLEMENTED);
	await fails(call({ path: "/none/None" }), grpc.status.UNIMPLEMENTED);
	await fails(call({ body: Buffer.from([255]) }), grpc.status.INVALID_ARGUMENT);
	await fails(call({ body: Buffer.alloc(3 << 20) }), grpc.status.RESOURCE_EXHAUSTED);
	const gzip = { deadline: Date.now() + 60_000, "grpc.default_compression_algorithm": 2 };
	assert(passed(await call({ options: gzip })));

	// The daemon leaves, and another comes: no call is lost.
	console.log("ready");
	let ends = false, answered = 0;
	process.stdin.resume().on("end", () => (ends = true));
	while (!ends) {
		const all = await Promise.all(Array.from({ length: 8 }, () => call({ metadata: new grpc.Metadata({ waitForReady: true }) })));
		assert(all.every(passed));
		answered += all.length;
	}
	console.log(answered);
	client.close();
}

main();
