import Common
import Loop

/// The port: what a service asks of a radio that it shares with other services.
///
/// Events come as calls on the loop, in the order in which they happened on the air; none comes from within a call to
/// the radio. What is set up lives as long as its handle, also across the loss and return of the adapter.
@LoopActor
public protocol Radio: AnyObject {
  var status: RadioStatus { get }

  /// What others did to the radio, in numbers since the start.
  var tallies: [Tally] { get }

  /// Calls `handler` at every change of `status` from now on.
  func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration

  /// Has an advertisement on the air for as long as the registration lives, also after a peer has connected, as far as
  /// `terms` and those of other advertisements let it.
  ///
  /// - Parameter server: the application that a peer who connects looks for: the advertisement waits until it is served.
  /// - Throws: `RadioError.advertisementTooLong`; what goes wrong later shows in `status`.
  func advertise(
    _ advertisement: Advertisement, _ terms: AdvertisingTerms, for server: (any GATTServer)?
  ) throws(RadioError) -> Registration

  /// The use of the advertising slots by all services together.
  var advertisingUse: AdvertisingUse { get }

  /// An advertiser of messages that are on the air for a stated time each.
  ///
  /// - Parameters:
  ///   - terms: for each message. Between two of them the set gives way to any other advertisement.
  ///   - resting: what it says between two messages; nil: nothing, and each message comes from an address of its own.
  /// - Throws: `RadioError.advertisementTooLong`.
  func advertisingSet(
    _ terms: AdvertisingTerms, every interval: Duration, resting: AdvertisingData?
  ) throws(RadioError) -> any AdvertisingSet

  /// Serves `application` until the server is closed. The delegate is held weakly.
  func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer

  /// Scans actively for advertisers of one of `services`; with an empty list, for every advertiser.
  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (ScanEvent) -> Void
  ) throws(RadioError) -> Registration

  /// Calls `handler` with every single packet that one of `patterns` matches, advertisers and repetitions alike; none is put
  /// together with another. The radio scans passively, unless a service scans besides.
  ///
  /// - Parameter patterns: an empty list stands for every packet, for which the radio scans actively.
  /// - Throws: `RadioError.notReady` where the radio cannot tell of packets, with what to do; `RadioError.notSupported` for more
  ///   than 16 patterns of all services together.
  func listen(
    for patterns: [AdvertisingPattern], _ handler: @escaping @LoopActor (AdvertisingPacket) -> Void
  ) throws(RadioError) -> Registration

  /// Connects to an advertiser that was sighted, when it is this attempt's turn. Everything more comes as events; the last
  /// one is `disconnected`.
  ///
  /// - Throws: `RadioError.notReady` without an adapter.
  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link

  /// How much of what goes over a link of this service's may wait on its way from now on; at first it is little. Of several services
  /// with the same link the last one decides.
  func allow(_ backlog: Backlog, on link: LinkID)

  /// Calls `handler` when the radio needs a place and takes one of this service's links: with those that it may take. The
  /// link that the handler returns is given up; with nil the radio chooses.
  func onLinkWanted(_ handler: @escaping @LoopActor ([LinkID]) -> LinkID?)

  /// Asks the services of lower priority for quiet, for as long as the registration lives: somebody is being served, and they
  /// neither scan nor connect meanwhile.
  func askForQuiet() -> Registration

  /// Whether a service of higher priority asks for quiet.
  var isQuietWanted: Bool { get }

  /// Whether a service of higher priority has an advertisement for a person who is to come. A radio that connects may advertise nothing
  /// meanwhile.
  var isPersonAwaited: Bool { get }

  /// Calls `handler` with each change of `isQuietWanted`.
  func onQuiet(_ handler: @escaping @LoopActor (Bool) -> Void) -> Registration
}

extension Radio {
  public func advertise(_ advertisement: Advertisement) throws(RadioError) -> Registration {
    try advertise(advertisement, AdvertisingTerms(), for: nil)
  }
}

/// What a radio is doing.
public struct RadioStatus: Hashable, Sendable {
  public enum State: String, Hashable, Sendable {
    /// There is something to wait for, and no need to do anything: an adapter, the Bluetooth service.
    case waiting
    /// It works.
    case ready
    /// It works in part; `reason` says what is missing and what to do.
    case degraded
  }

  public var state: State
  /// A sentence for a person; empty when ready.
  public var reason: String
  /// Names of the adapters there are, the one in use first: `hci0`.
  public var adapters: [String]
  /// What is behind it, with its version: `BlueZ 5.66`; empty where that says nothing.
  public var stack: String
  /// Consequences of the version and configuration, and what to do about them, as sentences for a person.
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
