import Air
import Common
import Crypto
import Hall
import Loop
import Radio
import Transfers
import Tuvali

/// A wallet without logic of its own, which sends valid or invalid data as the test decides.
@LoopActor
final class Phone {
  let hall: Hall
  let radio: AirRadio
  private(set) var isConnected = false
  /// Notifications from the kiosk.
  private(set) var notified: [(Characteristic, [UInt8])] = []
  /// Results of the requests, in order; nil for success.
  private(set) var answers: [ATTError?] = []
  private var asked = 0
  private var attempts = 0
  private var link: (any Link)?
  private let dialect = Dialect.v05

  init(in hall: Hall) {
    self.hall = hall
    radio = hall.air.addNode()
  }

  /// Starts to connect, negotiate an MTU and subscribe, and returns before any of it is done.
  func connect(mtu: Int? = 517, subscribing: Bool = true) {
    isConnected = false
    attempts += 1
    let attempt = attempts
    link = try? radio.connect(to: hall.kioskRadio.address) { [weak self] event in
      // The end of a link may be reported after the next link exists.
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

  /// Whether all writes are done, or their link has closed.
  var isThrough: Bool { link == nil || answers.count == asked }

  /// Clears the recorded notifications and answers.
  func forget() {
    (notified, answers, asked) = ([], [], 0)
  }

  /// Removes the phone from the simulated radio.
  func vanish() { hall.air.removeNode(radio) }

  /// Connects and identifies itself, with the kiosk's current key.
  @discardableResult
  func identify(mtu: Int? = 517) throws -> SessionKeys {
    let (identify, keys) = try Self.identify(to: hall.verifier.connectionURI)
    connect(mtu: mtu)
    write(identify, to: .identify)
    return keys
  }

  /// Writes to another service of the kiosk, which shares the link from then on.
  func use(_ characteristic: CharacteristicID) { link?.write([1], to: characteristic, as: .command) }

  /// Identifies itself on the present link, and sends a credential, with the kiosk's current code unless another one
  /// is given.
  func bring(_ text: [UInt8], code: String? = nil, seed: UInt64 = 1, mtu: Int = 185) throws {
    let (identify, keys) = try Self.identify(to: code ?? hall.verifier.connectionURI, seed: seed)
    write(identify, to: .identify)
    try send(try Sealing(text: text, keys: keys).run().get(), mtu: mtu)
  }

  /// Writes everything up to the request for a report, without waiting.
  func deliver(_ text: [UInt8], mtu: Int = 185) throws {
    let keys = try identify(mtu: mtu)
    try send(try Sealing(text: text, keys: keys).run().get(), mtu: mtu)
  }

  /// Writes the size, the chunks, and the request for a report.
  func send(_ frame: [UInt8], mtu: Int) throws {
    for (characteristic, value) in try Self.writes(of: frame, mtu: mtu) {
      write(value, to: characteristic, as: characteristic == .submitResponse ? .command : .request)
    }
  }

  /// A valid Identify value for the kiosk with this URI, and the derived session keys.
  nonisolated static func identify(to uri: String, seed: UInt64 = 1) throws -> (value: [UInt8], keys: SessionKeys) {
    var random = SeededRandom(seed: seed)
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    let keys = try SessionKeys(own: key, peer: try Invitation(reading: uri).key, nonce: nonce)
    return (nonce + key.publicKey.bytes, keys)
  }

  /// The writes that transfer a frame.
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
