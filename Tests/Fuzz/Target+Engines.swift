import Bytes
import Common
import Crypto

@testable import Tuvali

extension Target {
  /// Both sides of Tuvali: the input is a sequence of events, in any order and time.
  static let engines = [
    Target(
      name: "verifier", seeds: { VerifierStand.seeds }, goals: VerifierStand.goals,
      play: { bytes in
        var stand = VerifierStand()
        var script = Script(bytes)
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      }),
    Target(
      name: "wallet",
      seeds: {
        // Discovered, connected, identified, size announced; a frame of one chunk or of three; the verdict.
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

/// A wallet, its radio and its verifier, driven by a script.
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
