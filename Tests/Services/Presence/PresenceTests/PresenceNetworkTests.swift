import Foundation
import Glibc
import Loop
import TestSupport
import Testing

@Suite("Private presence in network namespaces", .serialized)
struct PresenceNetworkTests {
  init() { EventLoop.shared.runInBackground() }

  private static let top = #filePath.split(separator: "/").dropLast(5).map { "/\($0)" }.joined()

  /// Whether this process can make a network namespace and a virtual cable, and has the programs that the script needs.
  private static var canRun: Bool {
    guard getuid() == 0 else { return false }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [
      "unshare", "-n", "sh", "-c",
      "ip link add a type veth peer name b && command -v python3 openssl dbus-daemon >/dev/null",
    ]
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return false }
    process.waitUntilExit()
    return process.terminationStatus == 0
  }

  @Test(
    "200 peers, a network without unicast, and openssl as client and server work as the document requires",
    .enabled(if: canRun, "this needs root, network namespaces, python3, openssl and dbus-daemon"))
  @LoopActor
  func script() async throws {
    let folder = try ScratchFolder()
    let output = open(folder.path("output"), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(output) }
    let bundle = Swift.CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? ""
    let programs = URL(fileURLWithPath: bundle).deletingLastPathComponent().path
    let script = try Program(
      ["/usr/bin/env", "unshare", "-n", "python3", Self.top + "/scripts/presence-network.py", programs],
      passing: [1: output, 2: output])
    let status = await withCheckedContinuation { (continuation: CheckedContinuation<Int32?, Never>) in
      SerialWorker("network").offload({ script.wait() }, then: { continuation.resume(returning: $0) })
    }
    let text = try String(contentsOfFile: folder.path("output"), encoding: .utf8)
    #expect(status == 0, "\(text.suffix(4000))")
  }
}
