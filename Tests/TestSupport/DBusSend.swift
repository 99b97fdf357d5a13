import Foundation
import Loop

/// Runs `dbus-send` on a bus, started by the words of `prefix`, and returns its output.
@discardableResult
public func dbusSend(_ bus: PrivateBus, _ arguments: [String], as prefix: [String] = []) async throws -> String {
  let process = Process()
  let output = Pipe()
  process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
  process.arguments = prefix + ["dbus-send", "--bus=\(bus.address)"] + arguments
  process.standardOutput = output
  process.standardError = output
  try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
    process.terminationHandler = { _ in continuation.resume() }
    do {
      try process.run()
    } catch {
      continuation.resume(throwing: error)
    }
  }
  return String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
}
