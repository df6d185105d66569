// Asks a daemon with Node's http2, which is nghttp2: http2.js ADDRESS MESSAGE-IN-HEX CALLS. Prints how many were
// answered OK. Its windows are small, so that answers must wait for them.
const http2 = require("http2");
const [address, hex, calls] = process.argv.slice(2);
const message = Buffer.from(hex, "hex");
const frame = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);
const session = http2.connect("http://" + address, { settings: { initialWindowSize: 10 } });
let left = Number(calls), ok = 0;
for (let i = 0; i < Number(calls); i++) {
  const stream = session.request({
    ":method": "POST", ":path": "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    "content-type": "application/grpc", te: "trailers", "grpc-timeout": "30S",
  });
  const parts = [];
  stream.on("data", (d) => parts.push(d));
  stream.on("trailers", (t) => {
    if (t["grpc-status"] === "0" && Buffer.concat(parts)[6] === 1) ok++;
  });
  stream.on("error", (e) => { console.error(e); process.exit(1); });
  stream.on("close", () => {
    if (--left === 0) { console.log(ok); session.close(); }
  });
  stream.end(frame);
}
