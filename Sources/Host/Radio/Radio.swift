import Common
import Loop

/// What a service asks of a radio: the port. `BlueZ` and `Air` are what stands behind it.
///
/// Events come as calls on the loop, in the order in which they happened on the air; none comes from within a call to
/// the radio. What is set up lives as long as its handle, also across the loss and return of the adapter.
@LoopActor
public protocol Radio: AnyObject {
  var status: RadioStatus { get }

  /// What others did to it, in numbers since the start.
  var tallies: [Tally] { get }

  /// Calls `handler` at every change of `status` from now on.
  func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration

  /// Puts an advertisement on the air for as long as the registration lives, also after a peer has connected.
  ///
  /// - Throws: `RadioError.advertisementTooLong`; what goes wrong later shows in `status`.
  func advertise(_ advertisement: Advertisement) throws(RadioError) -> Registration

  /// Serves `application` until the server is closed. The delegate is held weakly.
  func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer

  /// Scans actively and reports each advertiser of one of `services` when it is first seen and when its data changes.
  func scan(
    for services: [BluetoothUUID], _ handler: @escaping @LoopActor (Sighting) -> Void
  ) throws(RadioError) -> Registration

  /// Connects to an advertiser that was sighted. Everything more comes as events; the last one is `disconnected`.
  func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link
}

extension Radio {
  public var tallies: [Tally] { [] }
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
  /// What that version costs, in sentences for a person.
  public var limits: [String]

  public init(
    _ state: State, reason: String = "", adapters: [String] = [], stack: String = "", limits: [String] = []
  ) {
    self.state = state
    self.reason = reason
    self.adapters = adapters
    self.stack = stack
    self.limits = limits
  }
}
