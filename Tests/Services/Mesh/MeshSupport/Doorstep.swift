import Bitchat
import BitchatWire
import Common
import Crypto
import Loop
import Radio
import TestSupport

@testable import Mesh

/// A radio for long runs, without propagation: a passer is in range at once, and packets arrive a little later. Half
/// of the passers connect, and half are discovered and connected to.
@LoopActor
public final class Doorstep: Radio {
  /// Latency from one end of a link to the other.
  private static let way = Duration.milliseconds(5)

  public let time: any Scheduler
  /// The passers with a link, by link.
  public private(set) var guests: [LinkID: Passer] = [:]
  /// The passers that can be connected to.
  private var sighted: [BluetoothAddress: Passer] = [:]
  private var lastLink: UInt64 = 0
  private weak var delegate: (any GATTServerDelegate)?
  private var scanner: (@LoopActor (ScanEvent) -> Void)?
  private var visits: [LinkID: Visit] = [:]
  /// Number of values that a client link sends at once before writes wait, like a socket with a small buffer.
  private static let room = 3
  /// Called with the values that the service sends on its client links, and whether they were sent at once.
  public var onVisitValue: @LoopActor (_ value: [UInt8], _ isAtOnce: Bool) -> Void = { _, _ in }
  /// Whether passers that the service has connected to refuse writes.
  public var isRefusing = false
  /// Links that the service has marked as streaming.
  public fileprivate(set) var streamers: [LinkID] = []
  /// The backlog limits of links, in the order in which the service set them.
  public private(set) var backlogs: [(link: LinkID, backlog: Backlog)] = []
  private var calls: [UInt64: Registration] = [:]
  private var lastCall: UInt64 = 0

  public init(_ time: any Scheduler) { self.time = time }

  // MARK: Passers

  /// Puts a passer in range.
  public func come(_ passer: Passer, as address: BluetoothAddress, connects: Bool) {
    passer.address = address
    guard connects else {
      sighted[address] = passer
      let node = AdvertisingData.ServiceData(service: BitchatGATT.service, bytes: passer.engine.identity.id.bytes)
      let scanResult = ScanResult(address: address, serviceUUIDs: [BitchatGATT.service], serviceData: [node], rssi: -60)
      return soon { $0.scanner?(.sighted(scanResult)) }
    }
    let link = nextLink()
    guests[link] = passer
    soon { doorstep in
      guard let delegate = doorstep.delegate, doorstep.guests[link] != nil else { return }
      delegate.linkOpened(link, address: address, since: doorstep.time.now)
      delegate.linkChanged(link, mtu: BitchatGATT.mtu)
      delegate.subscribed(link, to: BitchatGATT.characteristic, true)
      passer.opened(link, isOurs: true)
    }
  }

  /// Connects a phone whose writes the test makes.
  public func come(as address: BluetoothAddress) -> LinkID {
    let link = nextLink()
    delegate?.linkOpened(link, address: address, since: time.now)
    delegate?.linkChanged(link, mtu: BitchatGATT.mtu)
    delegate?.subscribed(link, to: BitchatGATT.characteristic, true)
    return link
  }

  /// Lets a passer that was connected to write over the same link.
  public func use(_ link: LinkID, by passer: Passer) {
    delegate?.linkOpened(link, address: passer.address, since: time.now)
  }

  public func write(_ bytes: [UInt8], on link: LinkID) {
    try? delegate?.written(bytes, to: BitchatGATT.characteristic, on: link)
  }

  /// Takes a passer out of range without a disconnection.
  public func go(_ passer: Passer) {
    let address = passer.address
    sighted = sighted.filter { $0.value !== passer }
    for link in guests.keys.filter({ guests[$0] === passer }) { end(link) }
    soon { $0.scanner?(.lost(address)) }
  }

  /// Delivers a passer's bytes to the service.
  public func said(_ bytes: [UInt8], on link: LinkID) {
    soon { doorstep in
      guard doorstep.guests[link] != nil else { return }
      if let visit = doorstep.visits[link] {
        visit.handler(.notified(BitchatGATT.characteristic, bytes))
      } else {
        try? doorstep.delegate?.written(bytes, to: BitchatGATT.characteristic, on: link)
      }
    }
  }

  /// Delivers the service's bytes to a passer.
  fileprivate func say(_ bytes: [UInt8], on link: LinkID) { soon { $0.guests[link]?.received(bytes, on: link) } }

  func end(_ link: LinkID) {
    guard let passer = guests.removeValue(forKey: link) else { return }
    let visit = visits.removeValue(forKey: link)
    soon { doorstep in
      passer.closed(link)
      if let visit {
        visit.handler(.disconnected(reason: "gone"))
      } else {
        doorstep.delegate?.linkClosed(link)
      }
    }
  }

  private func nextLink() -> LinkID {
    lastLink += 1
    return LinkID(lastLink)
  }

  fileprivate func soon(_ body: @escaping @LoopActor (Doorstep) -> Void) {
    after(Self.way) { [weak self] in
      guard let self else { return }
      body(self)
    }
  }

  /// Calls `body` after a time, even if the caller is gone.
  public func after(_ pause: Duration, _ body: @escaping @LoopActor () -> Void) {
    lastCall += 1
    let call = lastCall
    calls[call] = time.schedule(at: time.now.advanced(by: pause)) { [weak self] in
      self?.calls[call] = nil
      body()
    }
  }

  // MARK: The port

  public var status: RadioStatus { RadioStatus(.ready) }
  public var tallies: [Tally] { [] }
  public var isQuietWanted: Bool { false }
  public var isPersonAwaited: Bool { false }

  public func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration { Registration {} }
  public func onQuiet(_ handler: @escaping @LoopActor (Bool) -> Void) -> Registration { Registration {} }
  public func allow(_ backlog: Backlog, on link: LinkID) { backlogs.append((link, backlog)) }
  public func onLinkWanted(_ handler: @escaping @LoopActor ([LinkID]) -> LinkID?) {}
  public func askForQuiet() -> Registration { Registration {} }

  public var advertisingUse: AdvertisingUse { AdvertisingUse(used: 0, places: 1, onAir: [], waiting: []) }

  public func advertisingSet(
    _ terms: AdvertisingTerms, every interval: Duration, resting: AdvertisingData?
  ) throws(RadioError) -> any AdvertisingSet {
    throw .notSupported("There is no air.")
  }

  public func listen(
    for patterns: [AdvertisingPattern], _ handler: @escaping @LoopActor (AdvertisingPacket) -> Void
  ) throws(RadioError) -> Registration {
    throw .notSupported("There is no air.")
  }

  public func advertise(
    _ advertisement: Advertisement, _ terms: AdvertisingTerms, for server: (any GATTServer)?
  ) throws(RadioError) -> Registration { Registration {} }

  public func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer {
    self.delegate = delegate
    return Server(self)
  }

  public func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) throws(RadioError) -> Registration {
    scanner = handler
    return Registration { [weak self] in self?.scanner = nil }
  }

  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    let visit = Visit(nextLink(), self, handler)
    guard let passer = sighted[address] else {
      soon { _ in handler(.disconnected(reason: "not here")) }
      return visit
    }
    visits[visit.id] = visit
    guests[visit.id] = passer
    soon { doorstep in if doorstep.guests[visit.id] != nil { handler(.connected) } }
    return visit
  }

  /// A link that the service initiated.
  @LoopActor
  private final class Visit: Link {
    let id: LinkID
    let handler: @LoopActor (LinkEvent) -> Void
    private weak var doorstep: Doorstep?
    private var room = Doorstep.room
    private var isWriting = false

    init(_ id: LinkID, _ doorstep: Doorstep, _ handler: @escaping @LoopActor (LinkEvent) -> Void) {
      (self.id, self.doorstep, self.handler) = (id, doorstep, handler)
    }

    private func soon(_ event: LinkEvent) {
      doorstep?.soon { [handler, id] in if $0.guests[id] != nil { handler(event) } }
    }

    func discover() { soon(.discovered(BitchatGATT.application.services)) }
    func exchangeMTU(_ mtu: Int) { soon(.mtuChanged(mtu)) }
    func subscribe(to characteristic: CharacteristicID) {
      doorstep?.guests[id]?.opened(id, isOurs: false)
      soon(.subscribed(characteristic))
    }
    func write(_ value: [UInt8], to characteristic: CharacteristicID, as kind: WriteKind) {
      precondition(!isWriting, "a stream is written one value after the other")
      isWriting = true
      doorstep?.onVisitValue(value, false)
      let isRefused = doorstep?.isRefusing == true
      if !isRefused { doorstep?.say(value, on: id) }
      doorstep?.soon { [weak self, id] doorstep in
        guard let self, doorstep.guests[id] != nil else { return }
        (isWriting, room) = (false, Doorstep.room)
        handler(.written(characteristic, error: isRefused ? .insufficientResources : nil))
      }
    }
    func streamNow(_ value: [UInt8], to characteristic: CharacteristicID) -> Bool {
      guard room > 0, !isWriting, let doorstep else { return false }
      room -= 1
      doorstep.onVisitValue(value, true)
      doorstep.say(value, on: id)
      return true
    }
    func disconnect() { doorstep?.end(id) }
  }

  @LoopActor
  private final class Server: GATTServer {
    private weak var doorstep: Doorstep?

    init(_ doorstep: Doorstep) { self.doorstep = doorstep }

    func notify(_ value: [UInt8], of characteristic: CharacteristicID, to recipients: Recipients) -> Delivery {
      guard case .link(let link) = recipients, let doorstep, doorstep.guests[link] != nil else { return Delivery() }
      doorstep.say(value, on: link)
      return Delivery(accepted: [link])
    }

    func expectStream(from link: LinkID) { doorstep?.streamers.append(link) }
    func disconnect(_ link: LinkID) { doorstep?.end(link) }
    func close() {
      guard let doorstep else { return }
      for link in doorstep.guests.keys { doorstep.end(link) }
    }
  }
}
