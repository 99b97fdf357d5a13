import Bitchat
import BitchatWire
import Common
import Crypto
import Loop
import Radio
import TestSupport

/// A passing person's phone: an engine of the mesh, and the reports of that engine.
@LoopActor
public final class Passer {
  public private(set) var engine: MeshEngine
  public var address = BluetoothAddress(0)
  public private(set) var heard = 0
  public private(set) var told = 0
  public private(set) var files = 0
  public private(set) var states: [UInt32: FileState] = [:]
  private let name: String
  private let doorstep: Doorstep
  private let clock: VirtualWallClock
  private var random: SeededRandom
  private var timer: Registration?
  private var waiting: [LinkID: Int] = [:]

  public init(_ name: String, seed: UInt64, _ doorstep: Doorstep, _ clock: VirtualWallClock) {
    random = SeededRandom(seed: seed)
    (self.name, self.doorstep, self.clock) = (name, doorstep, clock)
    engine = MeshEngine(
      identity: MeshEngine.Identity(randomFrom: &random), configuration: .init(nickname: name), random: random)
    begin()
  }

  /// Restarts the phone with its identity and nothing else.
  public func restart() {
    // A new seed: random values must not repeat.
    random = SeededRandom(seed: random.next())
    engine = MeshEngine(identity: engine.identity, configuration: .init(nickname: name), random: random)
    (waiting, states) = ([:], [:])
    begin()
  }

  private func begin() {
    handle(.clock(isTrusted: true))
    handle(.start)
  }

  public var id: PeerID { engine.identity.id }
  public var isLinked: Bool { !engine.neighbours.isEmpty }
  private var now: Instant { doorstep.time.now }
  private var wall: UInt64 { UInt64(clock.milliseconds) }

  public func opened(_ link: LinkID, isOurs: Bool) { handle(.linkOpened(link, frameLimit: 512, isOurs: isOurs)) }
  public func received(_ bytes: [UInt8], on link: LinkID) { handle(.received(bytes, on: link)) }
  public func closed(_ link: LinkID) {
    waiting[link] = nil
    handle(.linkClosed(link))
  }

  public func say(_ text: String) { if let said = engine.say(text, at: now, time: wall) { carryOut(said.actions) } }
  public func tell(_ text: String, to peer: PeerID, as number: UInt32) throws {
    carryOut(try engine.tell(text, to: peer, as: number, at: now, time: wall))
  }
  public func send(_ file: SharedFile, to peer: PeerID?, as number: UInt32) throws {
    carryOut(try engine.send(file, to: peer, as: number, at: now, time: wall))
  }

  private func handle(_ event: MeshEngine.Event) { carryOut(engine.handle(event, at: now, time: wall)) }

  private func carryOut(_ actions: [MeshEngine.Action]) {
    for action in actions {
      switch action {
      case .send(let bytes, let link, let kind):
        doorstep.said(bytes, on: link)
        if kind == .file { tookFile(link) }
      case .cut(let link, _): doorstep.end(link)
      case .heard: heard += 1
      case .told(let message, let peer, _):
        told += 1
        handle(.kept(message.id, from: peer))
      case .toldAgain(let id, let peer): handle(.kept(id, from: peer))
      case .file(let file):
        files += 1
        if let receipt = file.receipt { handle(.fileKept(receipt, from: file.sender)) }
      case .fileState(let number, let state): states[number] = state
      default: break
      }
    }
    setTimer()
  }

  /// Reports a little later that the link has buffer space again.
  private func tookFile(_ link: LinkID) {
    guard doorstep.guests[link] != nil else { return }
    waiting[link, default: 0] += 1
    doorstep.after(.milliseconds(2)) { [weak self] in
      guard let self, let count = waiting[link] else { return }
      waiting[link] = count - 1
      handle(.room(link, waiting: count - 1))
    }
  }

  private func setTimer() {
    timer = engine.deadline.map { due in
      doorstep.time.schedule(at: due) { [weak self] in self?.handle(.timer) }
    }
  }
}
