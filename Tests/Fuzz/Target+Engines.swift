import Bytes
import Common
import Crypto

@testable import Tuvali

extension Target {
  /// Both sides of Tuvali: the input is a sequence of events, in any order and time.
  static let engines = [
    Target(
      name: "verifier",
      seeds: {
        // A whole visit, with its verdict; one with a lost chunk; two links at a time; all by themselves.
        let visit: [UInt8] = [0, 1, 0, 185, 4, 0, 5, 0, 6, 0, 7, 13, 50, 8, 10, 0, 11, 1, 13, 255, 13, 255, 2]
        return [
          visit, visit.map { $0 == 6 ? 7 : $0 }, [0, 16] + visit + [18], visit + visit, [0, 1, 0, 23, 4, 0, 13, 255],
          [0, 3, 2, 0, 44] + [UInt8](repeating: 9, count: 44) + [14, 14, 12], [0, 4, 2, 5, 2, 9, 0, 3, 4, 2, 1, 0, 7],
        ]
      },
      run: { bytes in
        var stand = VerifierStand()
        var script = Script(bytes)
        while !script.isAtEnd { stand.step(&script) }
      }),
    Target(
      name: "wallet",
      seeds: {
        // Found, connected, identified, the size announced; a frame of one chunk or of three; the verdict.
        let start: [UInt8] = [0x30, 1, 2, 3, 4, 2, 5, 5, 6, 2, 0, 7, 6, 3, 0]
        let small: [UInt8] = [0, 1, 2, 3, 4, 0, 185, 5, 6, 2, 0, 7, 6, 3, 0]
        let chunk: [UInt8] = [6, 4, 0]
        let asked: [UInt8] = [6, 5, 0]
        let verdict: [UInt8] = [8, 6, 3, 1, 0, 0, 8, 7, 1, 0, 8, 8, 1, 1, 9]
        let missing: [UInt8] = [8, 6, 7, 0, 0, 1, 0, 1, 0, 2]
        return [
          start + chunk + asked + verdict, small + chunk + chunk + chunk + asked + verdict,
          small + chunk + chunk + chunk + asked + missing + chunk + chunk + asked + verdict,
          start + [11, 255, 11, 255, 13], [0, 10, 2, 1, 2, 2, 3, 4], start + chunk + [13, 13, 12, 1],
        ]
      },
      run: { bytes in
        var script = Script(bytes)
        guard var stand = WalletStand(controls: script.byte()) else { return }
        while !script.isAtEnd { stand.step(&script) }
      }),
  ]
}

/// A verifier, its wallets and its house, as a script plays them.
private struct VerifierStand {
  private var engine: VerifierEngine
  private var now = Instant.zero
  private var random = SeededRandom(seed: 1)
  private var keys: SessionKeys?
  private var unsealing: Unsealing?
  private var frame: [UInt8] = []
  private static let text = Array(String(repeating: "credential ", count: 60).utf8)
  private static let dialects = [Dialect.v05, .v04, .v03]

  init() {
    var configuration = VerifierEngine.Configuration(name: "OVPMOSIP")
    configuration.credentialLimit = 1 << 16
    configuration.visitors = 2
    engine = VerifierEngine(configuration: configuration, random: SeededRandom(seed: 42))
    handle(.start)
  }

  /// The lower four bits of a byte are the event, the upper ones the link.
  mutating func step(_ script: inout Script) {
    let byte = script.byte()
    let link = LinkID(UInt64(byte >> 4))
    switch byte & 0xF {
    // The radio reports half of the links as they come up, and the others later.
    case 0: handle(.linkOpened(link, at: byte & 0x80 == 0 ? now : now.advanced(by: .seconds(-5))))
    case 1: handle(.linkChanged(link, mtu: script.u16()))
    case 2: handle(.linkClosed(link))
    case 3:
      let characteristic = script.choice(of: Characteristic.allCases)
      let dialect = script.choice(of: Self.dialects)
      write(script.value(), to: characteristic, of: dialect, on: link)
    case 4: identify(link, script.choice(of: Self.dialects))
    case 5:
      let dialect = script.choice(of: Self.dialects)
      write(ResponseSize(frame.count).bytes(as: dialect.sizeEncoding), to: .responseSize, of: dialect, on: link)
    case 6: sendFrame(link, script.choice(of: Self.dialects), lost: nil)
    case 7: write(TransferReportRequest.report.bytes, to: .transferReportRequest, of: .v05, on: link)
    case 8: if let unsealing { handle(.unsealed(link, unsealing.run())) }
    case 9: sendFrame(link, script.choice(of: Self.dialects), lost: Int(script.byte()))
    case 10: handle(.kept(link, script.flag() ? TuvaliError(.unknown, .stopped, "It cannot be kept.") : nil))
    case 11: handle(.decided(link, accepted: script.flag()))
    case 12: handle(.dismissed(link))
    case 13: pass(.milliseconds(Int(script.byte()) * 50))
    case 14: handle(engine.isStarted ? .stop : .start)
    default: if let deadline = engine.deadline { pass(now.duration(to: deadline)) }
    }
  }

  private mutating func pass(_ duration: Duration) {
    now = now.advanced(by: max(duration, .zero))
    handle(.timer)
    if let deadline = engine.deadline { promise(deadline > now, "what was due is done") }
  }

  private mutating func identify(_ link: LinkID, _ dialect: Dialect) {
    guard let invitation = engine.invitation else { return }
    let key = X25519.PrivateKey(randomFrom: &random)
    let nonce = random.bytes(12)
    keys = try? SessionKeys(own: key, peer: invitation.key, nonce: nonce)
    frame = keys.flatMap { keys in taken { try keys.seal(Self.text) } } ?? []
    write(Identify(nonce: nonce, walletKey: key.publicKey).bytes, to: .identify, of: dialect, on: link)
  }

  private mutating func sendFrame(_ link: LinkID, _ dialect: Dialect, lost: Int?) {
    let mtu = engine.progress(of: link)?.mtu ?? 185
    let layout = ChunkLayout(mtu: max(mtu, Limits.minimumMTU))
    guard let chunker = taken({ try Chunker(frame: frame, layout: layout, firstSequence: dialect.firstSequence) })
    else { return }
    for sequence in chunker.sequences where sequence != lost {
      if let chunk = chunker.chunk(sequence) { write(chunk, to: .submitResponse, of: dialect, on: link) }
    }
  }

  private mutating func write(
    _ value: [UInt8], to characteristic: Characteristic, of dialect: Dialect, on link: LinkID
  ) {
    let (answer, actions) = engine.write(value, to: characteristic, of: dialect, on: link, at: now)
    if answer == .refused { promise(!engine.visitors.contains(link), "the visitor's writes are accepted") }
    perform(actions)
  }

  private mutating func handle(_ event: VerifierEngine.Event) { perform(engine.handle(event, at: now)) }

  private mutating func perform(_ actions: [VerifierEngine.Action]) {
    for action in actions {
      switch action {
      // A wallet sees the invitation later than the engine asks for it.
      case .advertise: now = now.advanced(by: .nanoseconds(1))
      case .unseal(_, let job): unsealing = job
      case .deliver(_, let text): promise(text == Self.text, "what is delivered was sent")
      case .notify(_, _, _, let value): promise(value.count <= Limits.writeBytes, "a notification fits")
      default: break
      }
    }
    promise(engine.waitingLinks <= engine.configuration.waitingLinks, "the waiting room has its limit")
    for progress in engine.visitors.compactMap({ engine.progress(of: $0) }) {
      promise(progress.bytesReceived <= progress.bytesExpected, "no more is taken than was announced")
    }
  }
}

/// A wallet, its radio and its verifier, as a script plays them.
private struct WalletStand {
  private var engine: WalletEngine
  private var now = Instant.zero
  private let dialect: Dialect
  private let invitation: Invitation
  private var sealing: Sealing?
  private var chunksOut = 0
  private var ends = 0

  init?(controls: UInt8) {
    let dialect = [Dialect.v05, .v04, .v03][Int(controls % 3)]
    var random = SeededRandom(seed: 12)
    var configuration = WalletEngine.Configuration()
    configuration.resendsWithResponse = controls & 4 == 0
    configuration.controlsWithResponse = controls & 8 == 0
    configuration.window = 1 + Int(controls >> 4)
    let text = Array(Hex.encode(random.bytes(300)).utf8)
    let key = X25519.PrivateKey(randomFrom: &random).publicKey
    guard let invitation = taken({ try Invitation(name: "OVPMOSIP", key: key) }),
      let engine = taken({
        try WalletEngine(
          invitation: invitation.text(as: dialect.invitationForm), text: text, configuration: configuration,
          random: random)
      })
    else { return nil }
    (self.engine, self.dialect, self.invitation) = (engine, dialect, invitation)
    handle(.start)
  }

  mutating func step(_ script: inout Script) {
    switch script.byte() % 15 {
    case 0: handle(.start)
    case 1: sight(invitation.advertisedServiceData, invitation.scanResponseServiceData)
    case 2: handle(.connected)
    case 3: handle(.discovered([dialect.service: Set(Characteristic.allCases.map(dialect.uuid(of:)))]))
    case 4: handle(.mtuChanged(script.u16()))
    case 5:
      for characteristic in Characteristic.allCases where characteristic.direction == .toWallet {
        handle(.subscribed(characteristic))
      }
    case 6: written(script.choice(of: Characteristic.allCases), script.byte())
    case 7: if let sealing { handle(.sealed(sealing.run())) }
    case 8: handle(.notified(script.choice(of: Characteristic.allCases), script.value()))
    case 9: handle(.disconnected)
    case 10: sight(script.value(), script.value())
    case 11: pass(.milliseconds(Int(script.byte()) * 100))
    case 12: handle(script.flag() ? .stop : .subscribed(script.choice(of: Characteristic.allCases)))
    case 13: handle(.radioRefused("It is off."))
    default: if let deadline = engine.deadline { pass(now.duration(to: deadline)) }
    }
  }

  private mutating func written(_ characteristic: Characteristic, _ outcome: UInt8) {
    if characteristic == .submitResponse { chunksOut = max(0, chunksOut - 1) }
    handle(.written(characteristic, outcome > 250 ? .other : outcome > 240 ? .busy : nil))
  }

  private mutating func sight(_ advertised: [UInt8], _ scanned: [UInt8]) {
    handle(.sighted(token: 7, serviceData: [dialect.service: advertised, dialect.scanResponse: scanned]))
  }

  private mutating func pass(_ duration: Duration) {
    now = now.advanced(by: max(duration, .zero))
    handle(.timer)
    if let deadline = engine.deadline { promise(deadline > now, "what was due is done") }
  }

  private mutating func handle(_ event: WalletEngine.Event) {
    for action in engine.handle(event, at: now) {
      promise(ends == 0, "nothing comes after the end")
      switch action {
      case .seal(let job): sealing = job
      case .write(let value, let characteristic, _, _):
        promise(value.count <= Limits.writeBytes, "a write fits")
        if characteristic == .submitResponse { chunksOut += 1 }
      case .tell(.ended): ends += 1
      default: break
      }
    }
    promise(chunksOut <= engine.configuration.window, "no more chunks are with the radio than the window allows")
    promise(engine.progress.bytesSent <= engine.progress.bytesExpected, "no more is sent than there is")
  }
}
