import Common
import Loop

/// The implementation of the shared radio: BlueZ, or the simulated radio. A driver executes requests and reports all
/// events; the layer above decides which service may do what.
///
/// Requests never call the delegate from within. They persist across losses and returns of the adapter: advertisements,
/// applications and scans are restored. Links are not: each ends with `linkDown`.
@LoopActor
public protocol RadioDriver: AnyObject {
  var status: RadioStatus { get }
  /// Counts of actions by peers and other programs, since the start.
  var tallies: [Tally] { get }
  /// The receiver of events, referenced weakly.
  var delegate: (any RadioDriverDelegate)? { get set }

  /// Maximum advertisements at one time, at least 1. `advertisingSlotsChanged` reports changes.
  var advertisingSlots: Int { get }

  /// Number of other programs' active advertisements.
  var foreignAdvertisements: Int { get }

  /// Sets the advertisement of a slot; nil empties the slot. Each payload has at most 31 bytes. `onAir` reports when it
  /// is active; errors are in `status`.
  ///
  /// If the old and the new advertisement belong to one set, the data is replaced and the address does not change.
  ///
  /// - Parameter slot: from 0; slots beyond `advertisingSlots` are only emptied.
  func advertise(_ advertisement: Advertisement?, in slot: Int)

  /// Serves an application under an unused number until `stopServing`. `applicationChanged` reports when peers can
  /// discover it.
  func serve(_ application: GATTApplication, as number: ApplicationID)

  func stopServing(_ number: ApplicationID)

  /// Whether peers can discover the application now.
  func isServed(_ number: ApplicationID) -> Bool

  /// Scans with this filter; nil stops scanning.
  func listen(_ listening: Listening?)

  /// The reason why the driver cannot report single advertising packets, and the remedy, in sentences for a person; nil
  /// if it can.
  var deafness: String? { get }

  /// Connects immediately; `linkUp` precedes the event `connected`, also for an existing link. A link that serves and
  /// connects has one identity.
  ///
  /// - Throws: `RadioError.notReady`.
  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link

  /// The adapter's public address (BD_ADDR); nil without an adapter.
  var publicAddress: BluetoothAddress? { get }

  /// Accepts streams to `profile` for the lifetime of the registration; see `Radio`. A profile is registered again
  /// after losses of the adapter. `RadioTraits.acceptingShortfall` states why no peer can connect.
  ///
  /// - Throws: `RadioError.refused` if the profile is used already; `RadioError.notSupported`.
  func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration

  /// Opens a stream to a peer's profile; see `Radio`.
  ///
  /// - Throws: `RadioError.notReady`, `RadioError.notSupported`.
  func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration

  /// Sends a value of an application's characteristic.
  func notify(
    _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
  ) -> Delivery

  /// Announces that a client writes its first values one at a time, and many later.
  func expectStream(from link: LinkID, in application: ApplicationID)

  /// Sets the limit of data that waits in the system on a link; initially it is small.
  func allow(_ backlog: Backlog, on link: LinkID)

  /// Which end made a link, as far as the driver knows.
  func origin(of link: LinkID) -> LinkOrigin

  /// Ends a link, in either role; `linkDown` follows. No effect on a link that has ended.
  func cut(_ link: LinkID)

  /// Restores settings that the driver changed for other programs, too. The program is about to exit, and no longer
  /// serves.
  ///
  /// - Parameter then: called once, when that is done; at the latest after `limit`, or after the time limit of links
  ///   that are being ended.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void)
}

extension RadioDriver {
  /// Whether the driver can report single advertising packets.
  public var seesPackets: Bool { deafness == nil }

  /// The default, for a driver without other programs.
  public var foreignAdvertisements: Int { 0 }

  /// The default, for a driver without BR/EDR.
  public var publicAddress: BluetoothAddress? { nil }

  /// The default, for a driver without BR/EDR.
  public func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    throw .notSupported("accept streams")
  }

  /// The default, for a driver without BR/EDR.
  public func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    throw .notSupported("open streams")
  }

  /// The default, for a driver with only one path for writes.
  public func expectStream(from link: LinkID, in application: ApplicationID) {}

  /// The default, for a driver with a fixed limit.
  public func allow(_ backlog: Backlog, on link: LinkID) {}

  /// The default, for a driver that has nothing to restore.
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

/// The filter of the driver's scan: services for scan results, patterns for single packets.
public struct Listening: Hashable, Sendable {
  /// The services whose advertisers are reported by `heard(_: ScanResult)`. An empty set means every advertiser, nil
  /// none.
  public var services: Set<BluetoothUUID>?
  /// The patterns whose packets are reported by `heard(_: AdvertisingPacket)`. An empty set means every packet, nil
  /// none.
  public var patterns: Set<AdvertisingPattern>?

  public init(services: Set<BluetoothUUID>? = nil, patterns: Set<AdvertisingPattern>? = nil) {
    self.services = services
    self.patterns = patterns
  }

  /// Whether the filter accepts a packet with this data.
  public func wants(_ data: ArraySlice<UInt8>) -> Bool {
    guard let patterns else { return false }
    return patterns.isEmpty || patterns.contains { $0.matches(data) }
  }
}

/// A link that came up, as a driver reports it.
public struct DriverLink: Hashable, Sendable {
  public var id: LinkID
  public var address: BluetoothAddress
  /// When the link came up.
  public var since: Instant

  public init(id: LinkID, address: BluetoothAddress, since: Instant) {
    self.id = id
    self.address = address
    self.since = since
  }
}

/// The end that made a link.
public enum LinkOrigin: Hashable, Sendable {
  /// The peer connected to this machine.
  case peer
  /// This machine connected to the peer: this service, or another program.
  case here
  /// Unknown; the link may belong to another program.
  case unknown
}

/// An action by which a client begins to use an application, other than a write.
public enum Use: Hashable, Sendable {
  case read(CharacteristicID)
  case subscribed(CharacteristicID)
  case unsubscribed(CharacteristicID)
}

/// The receiver of a driver's events. Calls come on the loop, never from within a call to the driver.
@LoopActor
public protocol RadioDriverDelegate: AnyObject {
  func statusChanged(_ status: RadioStatus)
  func advertisingSlotsChanged()
  /// Called when the content of a slot has changed, with the advertisement that is active there now, as far as known;
  /// nil if none is.
  func onAir(_ advertisement: Advertisement?, in slot: Int)
  /// Called when peers can discover the application, or no longer can.
  func applicationChanged(_ application: ApplicationID, isServed: Bool)

  /// Called once for each link when it is up, before all other calls about it.
  func linkUp(_ link: DriverLink)
  func linkChanged(_ link: LinkID, mtu: Int)
  /// Called when the link has ended. It is not reported again, and its identity is never reused.
  func linkDown(_ link: LinkID)

  func used(_ application: ApplicationID, by link: LinkID, _ use: Use)
  /// Called when a client has written.
  ///
  /// - Throws: the error for the answer to a write request.
  func written(
    _ value: [UInt8], to characteristic: CharacteristicID, of application: ApplicationID, on link: LinkID
  ) throws(ATTError)
  /// Called when a link that `notify` reported as full has capacity again.
  func hasRoom(_ link: LinkID)

  /// Called for a received advertiser, with its combined data; possibly for every packet.
  func heard(_ scanResult: ScanResult)
  /// Called for a received packet of an advertiser, if the scan requests packets (`Listening.patterns`).
  func heard(_ packet: AdvertisingPacket)
  /// Called when the driver has removed an advertiser: connecting to it fails until it is received again.
  func forgot(_ address: BluetoothAddress)
}
