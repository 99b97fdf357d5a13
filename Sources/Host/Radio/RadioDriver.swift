import Common
import Loop

/// What stands behind the shared radio: BlueZ, or the simulated air. A driver does what it is told and tells all that
/// happens; who may do what is decided above it.
///
/// Nothing that a driver is told to do calls its delegate from within. What it was told holds across the loss and return of
/// the adapter: advertisements, applications and scans come back by themselves. Links do not: each ends with `linkDown`.
@LoopActor
public protocol RadioDriver: AnyObject {
  var status: RadioStatus { get }
  /// What others did to the radio, in numbers since the start.
  var tallies: [Tally] { get }
  /// Who hears what happens. Held weakly.
  var delegate: (any RadioDriverDelegate)? { get set }

  /// How many advertisements can be on the air at one time, at least 1. Changes are told by `advertisingSlotsChanged`.
  var advertisingSlots: Int { get }

  /// How many advertisements of other programs have places besides.
  var foreignAdvertisements: Int { get }

  /// Puts an advertisement on the air in a slot, in place of what was there; nil empties the slot. Its payloads have 31
  /// bytes at most. `onAir` tells when it is there; what goes wrong shows in `status`.
  ///
  /// Where both belong to one advertising set the data is exchanged, and the address stays.
  ///
  /// - Parameter slot: from 0; those beyond `advertisingSlots` are only ever emptied.
  func advertise(_ advertisement: Advertisement?, in slot: Int)

  /// Serves an application under a number that is not in use, until `stopServing`. `applicationChanged` tells when peers
  /// can find it.
  func serve(_ application: GATTApplication, as number: ApplicationID)

  func stopServing(_ number: ApplicationID)

  /// Whether peers can find the application now.
  func isServed(_ number: ApplicationID) -> Bool

  /// Scans for as long as this is not nil.
  func listen(_ listening: Listening?)

  /// Why the driver cannot tell of single packets, and what to do, in sentences for a person; nil where it can.
  var deafness: String? { get }

  /// Connects at once; `linkUp` comes before the event `connected`, for a link that was there already, too. The link has
  /// the identity of the served link where both are one.
  ///
  /// - Throws: `RadioError.notReady`.
  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link

  /// Sends a value of an application's characteristic.
  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery

  /// A service says that a client writes its first values one at a time, and many later.
  func expectStream(from link: LinkID, in application: ApplicationID)

  /// How much of what goes over a link may wait on its way from now on; at first it is little.
  func allow(_ backlog: Backlog, on link: LinkID)

  /// Who made a link, as far as the driver can tell by now.
  func origin(of link: LinkID) -> LinkOrigin

  /// Cuts a link, whoever made it; `linkDown` follows. Does nothing for a link that is gone.
  func cut(_ link: LinkID)

  /// The program ends, and serves nothing any more: the driver gives back what it changed for other programs as well.
  ///
  /// - Parameter then: called once, when that is done; at the latest after `limit`, or when links that are being cut have had their time.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void)
}

extension RadioDriver {
  /// Whether the driver tells of single packets.
  public var seesPackets: Bool { deafness == nil }

  /// A driver that no other program shares.
  public var foreignAdvertisements: Int { 0 }

  /// A driver that takes all writes in one way.
  public func expectStream(from link: LinkID, in application: ApplicationID) {}

  /// A driver in which the same always waits.
  public func allow(_ backlog: Backlog, on link: LinkID) {}

  /// A driver that changes nothing for others has nothing to give back.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) { then() }
}

/// An application that a driver serves.
public struct ApplicationID: Hashable, Sendable, CustomStringConvertible {
  public let number: Int

  public init(_ number: Int) {
    self.number = number
  }

  public var description: String { "application \(number)" }
}

/// What a scan is for.
public struct Listening: Hashable, Sendable {
  /// Whether the delegate wants `heard(_: Sighting)`: an advertiser that names one of these services. Empty: every
  /// advertiser. Nil: no sightings.
  public var services: Set<BluetoothUUID>?
  /// Whether the delegate wants `heard(_: AdvertisingPacket)`: what one of these matches. Empty: every packet. Nil: no packets.
  public var patterns: Set<AdvertisingPattern>?

  public init(services: Set<BluetoothUUID>? = nil, patterns: Set<AdvertisingPattern>? = nil) {
    self.services = services
    self.patterns = patterns
  }

  /// Whether the delegate wants a packet with this data.
  public func wants(_ data: ArraySlice<UInt8>) -> Bool {
    guard let patterns else { return false }
    return patterns.isEmpty || patterns.contains { $0.matches(data) }
  }
}

/// A link as a driver tells of it.
public struct DriverLink: Hashable, Sendable {
  public var id: LinkID
  public var address: BluetoothAddress
  /// When it came up.
  public var since: Instant

  public init(id: LinkID, address: BluetoothAddress, since: Instant) {
    self.id = id
    self.address = address
    self.since = since
  }
}

/// Who made a link.
public enum LinkOrigin: Hashable, Sendable {
  /// The peer connected to us.
  case peer
  /// We connected to the peer: this service, or another program.
  case here
  /// The driver cannot tell; the link may belong to another program.
  case unknown
}

/// The use that a client makes of an application, apart from writing.
public enum Use: Hashable, Sendable {
  case read(CharacteristicID)
  case subscribed(CharacteristicID)
  case unsubscribed(CharacteristicID)
}

/// Who hears what happens at a driver. Calls come on the loop, never from within a call to the driver.
@LoopActor
public protocol RadioDriverDelegate: AnyObject {
  func statusChanged(_ status: RadioStatus)
  func advertisingSlotsChanged()
  /// What is in a slot has changed: the advertisement that is on the air there now, as far as the driver can tell; nil when none is.
  func onAir(_ advertisement: Advertisement?, in slot: Int)
  /// An application can be found by peers, or no longer.
  func applicationChanged(_ application: ApplicationID, isServed: Bool)

  /// A link is up. Comes once for each, before all else that is told of it.
  func linkUp(_ link: DriverLink)
  func linkChanged(_ link: LinkID, mtu: Int)
  /// The link is gone. Nothing more is told of it, and its identity is never used again.
  func linkDown(_ link: LinkID)

  func used(_ application: ApplicationID, by link: LinkID, _ use: Use)
  /// - Throws: what a write request is answered with.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError)
  /// A link that `notify` found full has room again.
  func hasRoom(_ link: LinkID)

  /// An advertiser was heard: what is known of it, put together. It may come for every packet.
  func heard(_ sighting: Sighting)
  /// A single packet of an advertiser came, where a scan asks for packets (`Listening.patterns`).
  func heard(_ packet: AdvertisingPacket)
  /// The driver knows an advertiser no more: until it is heard again, no attempt to connect to it can succeed.
  func forgot(_ address: BluetoothAddress)
}
