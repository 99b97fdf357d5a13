import HCI
import Loop
import Radio

/// Raw HCI as it is, on a controller of a test's own.
@LoopActor
public final class FakeRawHCI: RawHCI {
  public let controller = FakeController()
  /// What every send and every opening fails with.
  public var failure: HCIError? {
    didSet { controller.failure = failure }
  }
  public var links: [HCILink] {
    get { controller.links }
    set { controller.links = newValue }
  }
  /// Packets of data, as they were sent.
  public var sent: Mailbox<[UInt8]> { controller.sent }
  /// The controllers for which a socket was made.
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

  /// What the peer at an address wrote last to the CCCDs, by their handles. A test that does not set it has a kernel
  /// that does not let writes be seen.
  public var configurations: [BluetoothAddress: [UInt16: LastConfiguration]] = [:]
  private var writes: UInt64 = 0
  private let configured = Observers<SeenConfiguration>()

  /// The kernel has seen this write.
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
