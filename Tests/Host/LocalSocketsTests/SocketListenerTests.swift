import Glibc
import Loop
import TestSupport
import Testing

@testable import LocalSockets

@Suite("Local sockets that carry data in both directions", .serialized)
struct SocketListenerTests {
  private let folder: ScratchFolder
  private var path: String { folder.path("socket") }

  init() throws {
    EventLoop.shared.runInBackground()
    folder = try ScratchFolder()
  }

  /// Both ends of a connection, with a record of the events at each end.
  @LoopActor
  private final class Pair {
    let near: any StreamConnection
    let far: SocketStream
    let atNear = Mailbox<StreamEvent>()
    let atFar = Mailbox<StreamEvent>()

    init(_ near: any StreamConnection, _ far: SocketStream) {
      (self.near, self.far) = (near, far)
      near.onEvent = { [atNear] in atNear.put($0) }
      far.onEvent = { [atFar] in atFar.put($0) }
    }

    static func received(_ events: Mailbox<StreamEvent>, _ count: Int) async throws -> [UInt8] {
      var bytes: [UInt8] = []
      while bytes.count < count { if case .received(let more) = try await events.next() { bytes += more } }
      return bytes
    }
  }

  @LoopActor
  private func pair() async throws -> (pair: Pair, user: UInt32, listening: Registration) {
    let connections = Mailbox<(any StreamConnection, UInt32)>()
    let listening = try SocketListener().listen(at: path, mode: 0o600) { connections.put(($0, $1)) }
    let far = try SocketStream(connectingTo: path)
    let (near, user) = try await connections.next()
    return (Pair(near, far), user, listening)
  }

  @Test("3 MB arrive complete in each direction of a local socket, and all bytes are reported as written")
  @LoopActor
  func bothWays() async throws {
    let (pair, user, listening) = try await pair()
    defer { listening.cancel() }
    #expect(user == geteuid())
    let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
    pair.near.send(bytes)
    pair.far.send(bytes)
    #expect(try await Pair.received(pair.atFar, bytes.count) == bytes)
    #expect(try await Pair.received(pair.atNear, bytes.count) == bytes)
    pair.far.close()
    _ = try await pair.atNear.first { $0 == .ended }
    let written = pair.atNear.all.reduce(0) { sum, event in
      if case .written(let count) = event { sum + count } else { sum }
    }
    #expect(written == bytes.count)
  }

  @Test("Data sent before a local socket is closed arrives, and then the end")
  @LoopActor
  func close() async throws {
    let (pair, _, listening) = try await pair()
    defer { listening.cancel() }
    let bytes = [UInt8](repeating: 3, count: 2_000_000)
    pair.near.send(bytes)
    pair.near.close()
    pair.near.send([1])
    #expect(try await Pair.received(pair.atFar, bytes.count) == bytes)
    #expect(try await pair.atFar.first { $0 == .ended } == .ended)
  }

  @Test("Bytes on a local socket that is not read stay with the peer, even when the peer is gone")
  @LoopActor
  func notRead() async throws {
    let (pair, _, listening) = try await pair()
    defer { listening.cancel() }
    pair.near.isReading = false
    pair.far.send([1, 2, 3])
    _ = try await pair.atFar.first { $0 == .written(3) }
    pair.far.close()
    pair.near.send([9])
    // Opening another connection does not make the paused one read.
    let other = try SocketStream(connectingTo: path)
    other.close()
    #expect(pair.atNear.all.allSatisfy { $0 != .received([1, 2, 3]) })
    pair.near.isReading = true
    _ = try await pair.atNear.first { $0 == .ended || $0 == .received([1, 2, 3]) }
  }

  @Test("A listener replaces an orphaned socket file, but not one on which another program listens")
  @LoopActor
  func orphan() async throws {
    let first = try SocketListener().listen(at: path, mode: 0o600) { _, _ in }
    #expect(throws: ListenError.inUse(path)) { try SocketListener().listen(at: path, mode: 0o600) { _, _ in } }
    #expect(try folder.mode("socket") == 0o600)
    first.cancel()
    #expect(!folder.exists("socket"))
    // A socket file whose program no longer exists.
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
    #expect(isBound)
    Glibc.close(descriptor)
    let second = try SocketListener().listen(at: path, mode: 0o660) { _, _ in }
    #expect(try folder.mode("socket") == 0o660)
    second.cancel()
  }

  @Test("A socket path that is a regular file, relative or too long is refused")
  @LoopActor
  func badPaths() throws {
    try folder.write([1], to: "socket")
    #expect(throws: ListenError.inUse(path)) { try SocketListener().listen(at: path, mode: 0o600) { _, _ in } }
    #expect(try folder.read("socket") == [1])
    let long = "/" + String(repeating: "x", count: 107)
    for bad in ["", "socket", long] {
      #expect(throws: ListenError.badPath(bad)) { try SocketListener().listen(at: bad, mode: 0o600) { _, _ in } }
    }
  }
}
