import Common
import Loop

/// The port through which a service uses a radio that it shares with other services.
///
/// Events are delivered as calls on the loop, in the order of their occurrence, never from within a call to the radio.
/// Everything that is set up lasts as long as its handle, including losses and returns of the adapter.
@LoopActor
public protocol Radio: AnyObject {
  var status: RadioStatus { get }

  /// Counts of actions by peers and other programs, since the start.
  var tallies: [Tally] { get }

  /// Calls `handler` on every change of `status` from now on.
  func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration

  /// Broadcasts an advertisement for the lifetime of the registration, also after a peer has connected, subject to its
  /// `terms` and those of other advertisements.
  ///
  /// - Parameter server: the application that connecting peers use: the advertisement waits until it is served.
  /// - Throws: `RadioError.advertisementTooLong`; later errors are in `status`.
  func advertise(
    _ advertisement: Advertisement, _ terms: AdvertisingTerms, for server: (any GATTServer)?
  ) throws(RadioError) -> Registration

  /// The use of the advertising slots by all services.
  var advertisingUse: AdvertisingUse { get }

  /// An advertiser of messages that are each broadcast for a given time.
  ///
  /// - Parameters:
  ///   - terms: apply to each message. Between two messages any other advertisement may take the set's slot.
  ///   - resting: the data between two messages. With nil nothing is sent between them, and each message uses a new
  ///     address.
  /// - Throws: `RadioError.advertisementTooLong`.
  func advertisingSet(
    _ terms: AdvertisingTerms, every interval: Duration, resting: AdvertisingData?
  ) throws(RadioError) -> any AdvertisingSet

  /// Serves `application` until the server is closed. The delegate is referenced weakly.
  func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer

  /// Scans actively for advertisers of one of `services`; an empty list means every advertiser.
  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) throws(RadioError) -> Registration

  /// Calls `handler` with every packet that matches one of `patterns`, including repetitions; packets are not combined.
  /// The radio scans passively, unless another service scans actively.
  ///
  /// - Parameter patterns: an empty list means every packet, with active scanning.
  /// - Throws: `RadioError.notReady`, with instructions, if the radio cannot report packets; `RadioError.notSupported`
  ///   for more than 16 patterns of all services together.
  func listen(
    for patterns: [AdvertisingPattern], _ handler: @escaping @LoopActor (AdvertisingPacket) -> Void
  ) throws(RadioError) -> Registration

  /// Connects to an advertiser that was reported, as soon as this attempt may begin. All results are events; the last
  /// one is `disconnected`.
  ///
  /// - Throws: `RadioError.notReady` without an adapter.
  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link

  /// The adapter's public address (BD_ADDR); nil without an adapter.
  var publicAddress: BluetoothAddress? { get }

  /// Accepts streams to `profile` for the lifetime of the registration. Meanwhile every peer that knows the adapter's
  /// public address can connect to the adapter.
  ///
  /// - Parameter handler: called with each stream that a peer has opened.
  /// - Throws: `RadioError.refused` if the profile is used already; `RadioError.notSupported`.
  func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration

  /// Opens a stream to a peer's profile.
  ///
  /// - Parameter then: called once, later, unless the registration ends before.
  /// - Throws: `RadioError.notReady` without an adapter, and while a service of higher priority inhibits connecting;
  ///   `RadioError.notSupported`.
  func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration

  /// Sets the limit of data that waits in the system on a link of this service; initially it is small. If several
  /// services use the link, the last call applies.
  func allow(_ backlog: Backlog, on link: LinkID)

  /// Calls `handler` when the radio needs to release one of this service's links, with the links to choose from. The
  /// link that the handler returns is ended; with nil the radio chooses.
  func onLinkWanted(_ handler: @escaping @LoopActor ([LinkID]) -> LinkID?)

  /// Inhibits scanning and connecting of lower-priority services for the lifetime of the registration, while this
  /// service serves a peer.
  func askForQuiet() -> Registration

  /// Whether a service of higher priority inhibits scanning and connecting.
  var isQuietWanted: Bool { get }

  /// Whether a service of higher priority advertises for a person. A radio may be unable to advertise while it
  /// connects.
  var isPersonAwaited: Bool { get }

  /// Calls `handler` on each change of `isQuietWanted`.
  func onQuiet(_ handler: @escaping @LoopActor (Bool) -> Void) -> Registration
}

extension Radio {
  /// The default, for a radio without BR/EDR.
  public var publicAddress: BluetoothAddress? { nil }

  /// The default, for a radio without BR/EDR.
  public func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    throw .notSupported("accept streams")
  }

  /// The default, for a radio without BR/EDR.
  public func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    throw .notSupported("open streams")
  }

  public func advertise(_ advertisement: Advertisement) throws(RadioError) -> Registration {
    try advertise(advertisement, AdvertisingTerms(), for: nil)
  }
}

/// The state of a radio.
public struct RadioStatus: Hashable, Sendable {
  public enum State: String, Hashable, Sendable {
    /// The radio waits for an adapter or the Bluetooth service; no action is required.
    case waiting
    /// The radio works.
    case ready
    /// The radio works partially; `reason` states what is missing and what to do.
    case degraded
  }

  public var state: State
  /// A sentence for a person; empty when ready.
  public var reason: String
  /// Names of the available adapters, the one in use first: `hci0`.
  public var adapters: [String]
  /// The implementation and its version: `BlueZ 5.66`; may be empty.
  public var stack: String
  /// Consequences of the version and configuration, with what to do, as sentences for a person.
  public var limits: [String]
  public var traits: RadioTraits

  public init(
    _ state: State, reason: String = "", adapters: [String] = [], stack: String = "", limits: [String] = [],
    traits: RadioTraits = RadioTraits()
  ) {
    self.state = state
    self.reason = reason
    self.adapters = adapters
    self.stack = stack
    self.limits = limits
    self.traits = traits
  }
}
