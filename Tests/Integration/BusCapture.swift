import Foundation
import Glibc
import Loop
import TestSupport

/// Everything that a connection sends over a bus, byte for byte, as `dbus-monitor` hears it.
@LoopActor
final class BusCapture {
  private let file: URL
  private let monitor: Program

  /// Hears when it returns.
  init(_ bus: PrivateBus, sender: String) async throws {
    file = FileManager.default.temporaryDirectory.appendingPathComponent("capture-\(UUID().uuidString.prefix(8))")
    let descriptor = open(file.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { Glibc.close(descriptor) }
    monitor = try Program(
      ["dbus-monitor", "--address", bus.address, "--binary", "sender='\(sender)'"], passing: [1: descriptor])
    // It writes the news of its own name first of all. Not read to see that: of an empty file, Foundation leaks its buffer.
    try await until { [file] in
      var status = stat()
      return stat(file.path, &status) == 0 && status.st_size > 0
    }
  }

  var bytes: [UInt8] { (try? Data(contentsOf: file)).map(Array.init) ?? [] }

  func close() {
    monitor.end()
    try? FileManager.default.removeItem(at: file)
  }
}

/// Looks at something outside of the loop's sight again and again, until it is so.
@LoopActor
func until(_ isSo: @escaping @LoopActor () -> Bool) async throws {
  let done = Mailbox<Bool>()
  var timer: Registration?
  func look() {
    if isSo() { return done.put(true) }
    timer = EventLoop.shared.schedule(after: .milliseconds(2)) { look() }
  }
  look()
  _ = try await done.next()
  timer?.cancel()
}
