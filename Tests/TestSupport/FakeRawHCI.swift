import HCI
import Loop
import Radio

/// The real raw HCI on a simulated controller.
@LoopActor
public final class FakeRawHCI: RawHCI {
  public let controller = FakeController()
  /// The error of every send and every opening.
  public var failure: HCIError? {
    didSet { controller.failure = failure }
  }
  public var links: [HCILink] {
    get { controller.links }
    set { controller.links = newValue }
  }
  /// The data packets that were sent.
  public var sent: Mailbox<[UInt8]> { controller.sent }
  /// The controllers for which a socket was opened.
  public private(set) var opened: [UInt16] = []

  private let scheduler: any Scheduler
  private lazy var hci = KernelHCI(
    scheduler: scheduler,
    makeSocket: { [weak self] (index) throws(HCIError) in
      guard let self else { throw .noController }
      if let failure { throw failure }
      opened.append(index)
      return controller
    }, privilege: controller.privilege)

  public init(scheduler: any Scheduler = EventLoop.shared) {
    self.scheduler = scheduler
  }

  public func open(_ index: UInt16) throws(HCIError) { try hci.open(index) }

  public func closeAll() { hci.closeAll() }

  /// The last CCCD writes of the peer with an address, by handle. If a test does not set it, the kernel
  /// does not show writes.
  public var configurations: [BluetoothAddress: [UInt16: LastConfiguration]] = [:]
  private var writes: UInt64 = 0
  private let configured = Observers<SeenConfiguration>()

  /// Records a write that the kernel has seen.
  public func write(_ configuration: ClientConfiguration, to attribute: UInt16, by address: BluetoothAddress) {
    writes += 1
    configurations[address, default: [:]][attribute] = LastConfiguration(configuration, number: writes)
    configured.call(SeenConfiguration(configuration, of: attribute, by: address, on: opened.last ?? 0))
  }

  public func onConfiguration(_ handler: @escaping @LoopActor (SeenConfiguration) -> Void) -> Registration {
    configured.add(handler)
  }

  public func configuration(of attribute: UInt16, by address: BluetoothAddress, on index: UInt16) -> LastConfiguration?
  {
    configurations[address]?[attribute]
  }

  public func packetLimit(of index: UInt16) -> Int { hci.packetLimit(of: index) }

  public func links(of index: UInt16) throws(HCIError) -> [HCILink] { try hci.links(of: index) }

  public func send(
    _ value: ATTNotification, to address: BluetoothAddress, on index: UInt16,
    then: @escaping @LoopActor (RawOutcome) -> Void
  ) -> RawAcceptance {
    hci.send(value, to: address, on: index, then: then)
  }

  public func forget(_ address: BluetoothAddress, on index: UInt16) { hci.forget(address, on: index) }

  public func onRoom(_ handler: @escaping @LoopActor (BluetoothAddress, UInt16) -> Void) -> Registration {
    hci.onRoom(handler)
  }
}
