import Foundation
import Glibc
import Loop
import TestSupport

/// Records all messages that a connection sends over a bus, byte for byte, with `dbus-monitor`.
@LoopActor
final class BusCapture {
  private let file: URL
  private let monitor: Program

  /// Starts the recording, and returns when it is running.
  init(_ bus: PrivateBus, sender: String) async throws {
    file = FileManager.default.temporaryDirectory.appendingPathComponent("capture-\(UUID().uuidString.prefix(8))")
    let descriptor = open(file.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { Glibc.close(descriptor) }
    monitor = try Program(
      ["dbus-monitor", "--address", bus.address, "--binary", "sender='\(sender)'"], passing: [1: descriptor])
    // The monitor first writes the signal about its own name. The size is checked without reading, because Foundation
    // leaks its buffer for an empty file.
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

/// Polls a condition outside of the loop's view until it holds.
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
