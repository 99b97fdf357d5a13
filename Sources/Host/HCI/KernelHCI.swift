import Bytes
import Loop

/// Raw HCI by the kernel's raw sockets, one for each controller. CAP_NET_RAW is in effect while something is sent, and at
/// no other time.
@LoopActor
public final class KernelHCI: RawHCI {
  private let makeSocket: @LoopActor (UInt16) throws(HCIError) -> HCISocket
  private let scheduler: any Scheduler
  private var controllers: [UInt16: RawController] = [:]

  // HCIGETCONNLIST of <bluetooth/hci.h>.
  private static let getConnectionList: UInt = 0x8004_48D4

  /// - Parameter makeSocket: where the sockets come from, by the controllers' indices.
  public init(
    scheduler: any Scheduler = EventLoop.shared,
    _ makeSocket: @escaping @LoopActor (UInt16) throws(HCIError) -> HCISocket = { (index) throws(HCIError) in
      try HCISocket(.raw, index: index)
    }
  ) {
    self.scheduler = scheduler
    self.makeSocket = makeSocket
  }

  public func open(_ index: UInt16) throws(HCIError) {
    guard controllers[index] == nil else { return }
    controllers[index] = try RawController(try makeSocket(index), index, scheduler)
  }

  public func closeAll() {
    controllers = [:]
  }

  public func links(of index: UInt16) throws(HCIError) -> [HCILink] {
    var bytes = HCILink.question(index)
    try controller(index).socket.control(Self.getConnectionList, &bytes)
    do throws(WireError) {
      return try HCILink.list(reading: bytes)
    } catch {
      throw .failed("HCIGETCONNLIST: \(error)")
    }
  }

  public func buffers(of index: UInt16) -> LEBuffers { controllers[index]?.buffers ?? .least }

  public func send(_ packets: [[UInt8]], to index: UInt16) throws(HCIError) {
    try controller(index).send(packets)
  }

  private func controller(_ index: UInt16) throws(HCIError) -> RawController {
    try open(index)
    guard let controller = controllers[index] else { throw .noController }
    return controller
  }
}
