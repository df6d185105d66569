# Asks a daemon with gRPC's C core: ccore.py ADDRESS MESSAGE-IN-HEX CALLS. Prints how many were answered OK.
import sys
import grpc

channel = grpc.insecure_channel(sys.argv[1])
message, calls = bytes.fromhex(sys.argv[2]), int(sys.argv[3])
path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
ask = channel.unary_unary(path)  # bytes in, bytes out
ok = 0
for batch in range(calls // 50):
    flying = [ask.future(message, timeout=30, metadata=(("traceparent", "00-%032x-%016x-01" % (batch + 1, i + 1)),)) for i in range(50)]
    ok += sum(f.result()[:2] == b"\x08\x01" for f in flying)
try:
    ask(b"\xff", timeout=30)
except grpc.RpcError as e:
    assert e.code() == grpc.StatusCode.INVALID_ARGUMENT, e
packed = channel.unary_unary(path)(message, timeout=30, compression=grpc.Compression.Gzip)
assert packed[:2] == b"\x08\x01", packed
large = channel.unary_unary(path)
try:
    large(bytes(3 << 20), timeout=30)
    assert False, "3 MiB were taken"
except grpc.RpcError as e:
    assert e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, e
print(ok)
