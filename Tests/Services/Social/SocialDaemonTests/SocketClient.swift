import ASN
import Bytes
import Crypto
import LocalSockets
import Loop
import Social
import Streams
import TestSupport
import WebSocket

/// A client of ASN over a real socket.
@LoopActor
final class SocketClient {
  struct Refused: Error {}

  let user: UserKey
  private var stream: any StreamConnection
  private var session: ClientSession
  private let events = Mailbox<StreamEvent>()
  private(set) var answers: [Acknowledgement] = []
  private(set) var blobs: [Blob] = []
  private(set) var isEnded = false

  /// Connects, and logs in as a new user.
  ///
  /// - Parameter path: the path of WebSocket; nil for the plain stream.
  init(_ process: SocialProcess, _ transport: SocketStream, path: String? = nil) async throws {
    let service = try await process.property("ServiceKey").asString ?? ""
    let nonce = try await process.property("ServiceNonce").asString ?? ""
    var random = SystemRandom()
    let key = X25519.PrivateKey(randomFrom: &random)
    user = UserKey(key.publicKey)
    var configuration = ClientSession.Configuration(
      service: try X25519.PublicKey(try Hex.decode(service)), nonce: try Hex.decode(nonce), user: user,
      authentication: Ed25519.PrivateKey(randomFrom: &random))
    configuration.isNewUser = true
    session = ClientSession(configuration: configuration, random: &random)
    stream = transport
    if let path { stream = try await Self.upgraded(transport, path) }
    stream.onEvent = { [events] in events.put($0) }
    carryOut(session.start())
    carryOut(try session.logIn())
    try await wait { $0.session.state == .established }
  }

  private static func upgraded(_ transport: SocketStream, _ path: String) async throws -> WebSocketStream {
    var random = SystemRandom()
    var upgrade = UpgradeResponse(host: "localhost", path: path, random: &random)
    let events = Mailbox<StreamEvent>()
    transport.onEvent = { events.put($0) }
    transport.send(upgrade.request)
    while true {
      switch try await events.next() {
      case .received(let bytes):
        switch upgrade.receive(bytes) {
        case .wait: break
        case .accepted: return WebSocketStream(transport, role: .client, random: SystemRandom())
        case .refused: throw Refused()
        }
      case .written, .pong: break
      case .ended: throw Refused()
      }
    }
  }

  /// Sends a command, and waits for its answer.
  func exec(_ arguments: String..., input: String? = nil) async throws -> Acknowledgement {
    let command = Command(arguments, input: input.map { Array($0.utf8) })
    let count = answers.count
    carryOut(try session.exec(command).actions)
    try await wait { $0.answers.count > count }
    return answers[count]
  }

  /// Waits until the condition holds.
  func wait(until isDone: (SocketClient) -> Bool) async throws {
    while !isDone(self) {
      switch try await events.next() {
      case .received(let bytes): carryOut(session.receive(bytes))
      case .written, .pong: break
      case .ended:
        isEnded = true
        guard isDone(self) else { throw Refused() }
      }
    }
  }

  func close() { stream.close() }

  private func carryOut(_ actions: [ClientAction]) {
    for action in actions {
      switch action {
      case .send(let bytes): stream.send(bytes)
      case .answered(_, let answer): answers.append(answer)
      case .arrived(let blob): blobs.append(blob)
      case .redirected, .state: break
      case .close: stream.close()
      }
    }
  }
}
