import Crypto
import Foundation
import LocalSockets
import Loop
import TLS
import TestSupport
import Testing
import WebSocket

/// A SOCKS proxy with one relay behind it, in virtual time. The relay stores events and passes them on.
@LoopActor
final class FakeRelay {
  /// A connection of a client.
  @LoopActor
  private final class Connection {
    let stream: FakeStream
    private unowned let relay: FakeRelay
    private let tls: TLSCertificateSession
    private var socks: [UInt8] = []
    private var stage = 0
    private var upgrade = UpgradeRequest(path: "/")
    private let framing: WebSocketFraming
    private var isOpen = false
    var subscriptions: [String: [String: Any]] = [:]

    init(_ relay: FakeRelay, _ tls: TLSCertificateSession) {
      (self.relay, self.tls, stream) = (relay, tls, FakeStream(relay.clock))
      framing = WebSocketFraming(role: .server, sends: .text, limit: 1 << 20, random: SeededRandom(seed: 1))
      stream.onOutput = { [weak self] in self?.receive($0) }
    }

    private func receive(_ bytes: [UInt8]) {
      guard stage < 3 else {
        for event in tls.receive(bytes) { if case .received(let text) = event { plain(text) } }
        return flush()
      }
      socks += bytes
      switch stage {
      case 0 where socks.count == 3: answer([5, 2])
      case 1 where socks.count > 2: noteUser()
      case 2 where socks.count > 5:
        relay.targets.append(String(decoding: socks[5..<(5 + Int(socks[4]))], as: UTF8.self))
        answer([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
      default: break
      }
    }

    private func noteUser() {
      let end = 2 + Int(socks[1])
      relay.users.append(String(decoding: socks[2..<end], as: UTF8.self))
      relay.passwords.append(String(decoding: socks[(end + 1)...], as: UTF8.self))
      answer([1, relay.refusesUsers ? 1 : 0])
    }

    private func answer(_ bytes: [UInt8]) {
      (stage, socks) = (stage + 1, [])
      stream.arrive(bytes)
    }

    private func plain(_ bytes: [UInt8]) {
      guard !isOpen else {
        for action in framing.receive(bytes) {
          switch action {
          case .message(let message): relay.handle(message, of: ObjectIdentifier(self))
          case .send(let frame): write(frame)
          case .pong, .close: break
          }
        }
        return
      }
      if case .accept(let response, _) = upgrade.receive(bytes) {
        isOpen = true
        write(response)
      }
    }

    func tell(_ values: [Any]) {
      guard let data = try? JSONSerialization.data(withJSONObject: values) else { return }
      write(framing.send(Array(data)))
    }

    private func write(_ bytes: [UInt8]) {
      tls.send(bytes)
      flush()
    }

    private func flush() {
      let bytes = tls.takeOutgoing()
      if !bytes.isEmpty { stream.arrive(bytes) }
    }
  }

  let clock: HandClock
  /// Whether the SOCKS proxy accepts connections.
  var isThere = true
  /// The relay loses each event, and accepts it nevertheless.
  var swallows = false
  /// The proxy accepts the method of user name and password, and refuses each user.
  var refusesUsers = false
  fileprivate(set) var users: [String] = []
  fileprivate(set) var passwords: [String] = []
  fileprivate(set) var targets: [String] = []
  private(set) var dials = 0
  private(set) var events: [[String: Any]] = []
  private var connections: [ObjectIdentifier: Connection] = [:]
  private let identity: TLSIdentity

  init(_ clock: HandClock) throws {
    self.clock = clock
    let certificate = TestCertificate.first
    identity = try #require(TLSIdentity(chain: Array(certificate.chain.utf8), key: Array(certificate.key.utf8)))
  }

  func dial(_ host: String, _ port: UInt16) throws(LocalStreamError) -> any StreamConnection {
    dials += 1
    guard isThere, let tls = TLSCertificateSession(identity) else { throw .missing }
    #expect(host == "127.0.0.1" && port == 9050)
    let connection = Connection(self, tls)
    connections[ObjectIdentifier(connection)] = connection
    return connection.stream
  }

  /// Closes all connections of clients.
  func hangUp() {
    let all = connections.values
    connections = [:]
    for connection in all { connection.stream.hangUp() }
  }

  private func handle(_ message: [UInt8], of id: ObjectIdentifier) {
    guard let values = try? JSONSerialization.jsonObject(with: Data(message)) as? [Any],
      let connection = connections[id]
    else { return }
    switch values.first as? String {
    case "REQ":
      guard let name = values[1] as? String, let filter = values[2] as? [String: Any] else { return }
      connection.subscriptions[name] = filter
      for event in events where Self.matches(event, filter) { connection.tell(["EVENT", name, event]) }
      connection.tell(["EOSE", name])
    case "CLOSE": if let name = values[1] as? String { connection.subscriptions[name] = nil }
    case "EVENT":
      guard let event = values[1] as? [String: Any], let number = event["id"] as? String else { return }
      connection.tell(["OK", number, true, ""])
      if swallows { return }
      events.append(event)
      for other in connections.values {
        for (name, filter) in other.subscriptions where Self.matches(event, filter) {
          other.tell(["EVENT", name, event])
        }
      }
    default: break
    }
  }

  private static func matches(_ event: [String: Any], _ filter: [String: Any]) -> Bool {
    guard let tags = event["tags"] as? [[String]] else { return false }
    return ["p", "g"].contains { name in
      let wanted = filter["#\(name)"] as? [String] ?? []
      return tags.contains { $0.first == name && wanted.contains($0[1]) }
    }
  }
}
