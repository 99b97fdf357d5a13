import Common
import Crypto
import TLS
import Testing

/// A client and a server that exchange their bytes in memory.
struct TLSPair {
  static let identity = String(repeating: "aB3+/x9=", count: 24)
  static let key = SecretBytes(copying: [UInt8](1...16))

  let client: TLSSession
  let server: TLSSession
  private(set) var clientEvents: [TLSEvent] = []
  private(set) var serverEvents: [TLSEvent] = []
  /// All bytes that client and server have sent, in order.
  private(set) var recorded: [UInt8] = []

  init(
    identity: String = TLSPair.identity, clientKey: SecretBytes = TLSPair.key,
    clientSuites: [TLSSuite] = [.ephemeral], serverSuites: [TLSSuite] = [.ephemeral],
    serverKey: @escaping (String, TLSSuite) -> SecretBytes? = { _, _ in TLSPair.key }
  ) throws {
    let clients = try #require(TLSContext(isServer: false, suites: clientSuites))
    let servers = try #require(TLSContext(isServer: true, suites: serverSuites))
    client = try TLSSession(clients, .client(identity: identity, key: clientKey), at: .zero)
    server = try TLSSession(servers, .server(key: serverKey), at: .zero)
  }

  /// Exchanges bytes until neither side has any to send.
  ///
  /// - Parameter portion: how many bytes arrive at once.
  mutating func run(portion: Int = .max) {
    while true {
      let there = client.takeOutgoing()
      let back = server.takeOutgoing()
      guard !there.isEmpty || !back.isEmpty else { return }
      recorded += there + back
      Self.carry(there, portion) { serverEvents += server.receive($0) }
      Self.carry(back, portion) { clientEvents += client.receive($0) }
    }
  }

  private static func carry(_ bytes: [UInt8], _ portion: Int, _ body: (ArraySlice<UInt8>) -> Void) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = min(portion, rest.count)
      body(rest.prefix(count))
      rest = rest.dropFirst(count)
    }
  }

  mutating func forget() { (clientEvents, serverEvents) = ([], []) }

  static func received(_ events: [TLSEvent]) -> [UInt8] {
    events.flatMap { event -> [UInt8] in if case .received(let bytes) = event { bytes } else { [] } }
  }
}
