import Air
import Common
import Crypto
import Hall
import Loop
import Radio
import Transfers
import Tuvali

/// A wallet that does whatever a test wants, right or wrong, with no mind of its own.
@LoopActor
final class Phone {
  let hall: Hall
  let radio: AirRadio
  private(set) var isConnected = false
  /// What came from the kiosk.
  private(set) var notified: [(Characteristic, [UInt8])] = []
  /// Answers to requests, in order; nil: carried out.
  private(set) var answers: [ATTError?] = []
  private var asked = 0
  private var attempts = 0
  private var link: (any Link)?
  private let dialect = Dialect.v05

  init(in hall: Hall) {
    self.hall = hall
    radio = hall.air.addNode()
  }

  /// Connects, agrees on an MTU and subscribes; nothing of it has happened yet on return.
  func connect(mtu: Int? = 517, subscribing: Bool = true) {
    isConnected = false
    attempts += 1
    let attempt = attempts
    link = try? radio.connect(to: hall.kioskRadio.address) { [weak self] event in
      // The end of a link may be heard of when there is the next one.
      if let self, attempts == attempt { happened(event) }
    }
    if let mtu { link?.exchangeMTU(mtu) }
    guard subscribing else { return }
    for characteristic in Characteristic.allCases where characteristic.direction == .toWallet {
      link?.subscribe(to: dialect.id(of: characteristic))
    }
  }

  func write(_ value: [UInt8], to characteristic: Characteristic, as kind: WriteKind = .request) {
    asked += 1
    link?.write(value, to: dialect.id(of: characteristic), as: kind)
  }

  func leave() { link?.disconnect() }

  /// Whether all writes are done, or there is no link any more to do them on.
  var isThrough: Bool { link == nil || answers.count == asked }

  /// Forgets what came and what was written.
  func forget() {
    (notified, answers, asked) = ([], [], 0)
  }

  /// Gives up its place in the air.
  func vanish() { hall.air.removeNode(radio) }

  /// Connects and says who it is, with the kiosk's present key.
  @discardableResult
  func identify(mtu: Int? = 517) throws -> SessionKeys {
    let (identify, keys) = try Self.identify(to: hall.verifier.connectionURI)
    connect(mtu: mtu)
    write(identify, to: .identify)
    return keys
  }

  /// Writes to another service of the kiosk, which has its link, too, from then on.
  func use(_ characteristic: CharacteristicID) { link?.write([1], to: characteristic, as: .command) }

  /// Identifies itself on the link that there is, and sends a credential; with the kiosk's present code unless one is named.
  func bring(_ text: [UInt8], code: String? = nil, seed: UInt64 = 1, mtu: Int = 185) throws {
    let (identify, keys) = try Self.identify(to: code ?? hall.verifier.connectionURI, seed: seed)
    write(identify, to: .identify)
    try send(try Sealing(text: text, keys: keys).run().get(), mtu: mtu)
  }

  /// Everything up to the request for a report, without waiting for anything.
  func deliver(_ text: [UInt8], mtu: Int = 185) throws {
    let keys = try identify(mtu: mtu)
    try send(try Sealing(text: text, keys: keys).run().get(), mtu: mtu)
  }

  /// The size, the chunks, the request for a report.
  func send(_ frame: [UInt8], mtu: Int) throws {
    for (characteristic, value) in try Self.writes(of: frame, mtu: mtu) {
      write(value, to: characteristic, as: characteristic == .submitResponse ? .command : .request)
    }
  }

  /// A good value of Identify for the kiosk with this URI, and what follows from it.
  nonisolated static func identify(to uri: String, seed: UInt64 = 1) throws -> (value: [UInt8], keys: SessionKeys) {
    var random = SeededRandom(seed: seed)
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    let keys = try SessionKeys(own: key, peer: try Invitation(reading: uri).key, nonce: nonce)
    return (nonce + key.publicKey.bytes, keys)
  }

  /// What a wallet writes to bring a frame.
  nonisolated static func writes(of frame: [UInt8], mtu: Int) throws -> [(Characteristic, [UInt8])] {
    let chunker = try Chunker(frame: frame, layout: ChunkLayout(mtu: mtu), firstSequence: 1)
    return [(.responseSize, ResponseSize(frame.count).bytes(as: .bigEndian))]
      + chunker.sequences.compactMap { chunker.chunk($0) }.map { (.submitResponse, $0) }
      + [(.transferReportRequest, [1])]
  }

  func values(of characteristic: Characteristic) -> [[UInt8]] {
    notified.filter { $0.0 == characteristic }.map(\.1)
  }

  private func happened(_ event: LinkEvent) {
    switch event {
    case .connected: isConnected = true
    case .notified(let id, let value):
      if let characteristic = dialect.characteristic(for: id.characteristic) {
        notified.append((characteristic, value))
      }
    case .written(_, let error):
      answers.append(error)
    case .disconnected:
      isConnected = false
      link = nil
    case .discovered, .mtuChanged, .subscribed: break
    }
  }
}
