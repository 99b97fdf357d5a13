import Foundation
import Glibc
import Loop
import TestSupport
import Testing

@testable import LocalSockets

/// A program that listens on a real socket, on a thread of its own.
private final class Listener: Sendable {
  let folder: URL
  let path: String
  private let descriptor: Int32

  init(backlog: Int32 = 4) throws {
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("earshot-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    path = folder.appendingPathComponent("socket").path
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
    try #require(isBound && listen(descriptor, backlog) == 0)
  }

  /// Serves one connection, on another thread.
  func serve(_ body: @escaping @Sendable (Int32) -> Void) {
    let descriptor = descriptor
    Thread.detachNewThread {
      let connection = accept(descriptor, nil, nil)
      body(connection)
      Glibc.close(connection)
    }
  }

  static func readAll(_ connection: Int32) -> [UInt8] {
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = read(connection, &buffer, buffer.count)
      guard count > 0 else { return bytes }
      bytes += buffer[..<count]
    }
  }

  func close() {
    Glibc.close(descriptor)
    try? FileManager.default.removeItem(at: folder)
  }
}

@Suite("Connections to local sockets", .serialized)
struct SocketConnectorTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private static func exchange(_ path: String, _ request: [UInt8]) async throws -> (
    reply: [UInt8], end: LocalStreamEvent
  ) {
    let events = Mailbox<LocalStreamEvent>()
    let connection = SocketConnector().connect(to: path, sending: request) { events.put($0) }
    defer { connection.cancel() }
    var reply: [UInt8] = []
    while true {
      let event = try await events.next()
      guard case .received(let bytes) = event else { return (reply, event) }
      reply += bytes
    }
  }

  @Test("A request of 5 MB and a reply of 3 MB pass a local socket completely")
  @LoopActor
  func whole() async throws {
    let listener = try Listener()
    defer { listener.close() }
    let request = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    listener.serve { connection in
      // The listener answers after the end of the request.
      let bytes = Listener.readAll(connection)
      let reply = Array(bytes.prefix(3_000_000))
      var sent = 0
      while sent < reply.count {
        sent += reply[sent...].withUnsafeBytes { write(connection, $0.baseAddress, $0.count) }
      }
    }
    let (reply, end) = try await Self.exchange(listener.path, request)
    #expect(reply == Array(request.prefix(3_000_000)) && end == .ended)
  }

  @Test("The reply of a local program that does not read the request is read to its end")
  @LoopActor
  func unread() async throws {
    let listener = try Listener()
    defer { listener.close() }
    listener.serve { connection in
      let reply = Array("no".utf8)
      _ = reply.withUnsafeBytes { write(connection, $0.baseAddress, $0.count) }
    }
    let (reply, end) = try await Self.exchange(listener.path, [UInt8](repeating: 1, count: 5_000_000))
    #expect(reply == Array("no".utf8) && end == .ended)
  }

  @Test("A path without a listener, that is not a socket, or that is too long gives the error for a missing socket")
  @LoopActor
  func missing() async throws {
    let listener = try Listener()
    defer { listener.close() }
    let file = listener.folder.appendingPathComponent("file").path
    try Data().write(to: URL(fileURLWithPath: file))
    for path in [listener.path + ".no", file, "/" + String(repeating: "x", count: 200), ""] {
      let (reply, end) = try await Self.exchange(path, [1])
      #expect(reply.isEmpty && end == .failed(.missing), "\(path)")
      #expect(!SocketConnector().hasSocket(at: path))
    }
    #expect(SocketConnector().hasSocket(at: listener.path))
  }
}
