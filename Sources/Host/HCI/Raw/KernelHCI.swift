import Loop
import Radio

/// How raw HCI gets the privilege to do what its argument does. In a program it is CAP_NET_RAW, in effect while the
/// argument runs and at no other time.
public typealias RawPrivilege = @LoopActor (() throws(HCIError) -> Void) throws(HCIError) -> Void

/// Raw HCI by the kernel's raw sockets, one for each controller.
@LoopActor
public final class KernelHCI: RawHCI {
  private let makeSocket: @LoopActor (UInt16) throws(HCIError) -> any RawSocket
  private let scheduler: any Scheduler
  private let privilege: RawPrivilege
  private var controllers: [UInt16: RawController] = [:]
  private var handlers: [(id: Int, handler: @LoopActor (BluetoothAddress, UInt16) -> Void)] = []
  private var lastHandler = 0

  /// - Parameters:
  ///   - makeSocket: where the sockets come from, by the controllers' indices.
  ///   - privilege: what the kernel asks of a process that sends and listens.
  public init(
    scheduler: any Scheduler = EventLoop.shared,
    makeSocket: @escaping @LoopActor (UInt16) throws(HCIError) -> any RawSocket = { (index) throws(HCIError) in
      try HCISocket(.raw, index: index)
    },
    privilege: @escaping RawPrivilege = { (body) throws(HCIError) in try Capabilities.using(.netRaw, body) }
  ) {
    self.scheduler = scheduler
    self.privilege = privilege
    self.makeSocket = makeSocket
  }

  public func open(_ index: UInt16) throws(HCIError) { _ = try controller(index) }

  public func closeAll() {
    let open = controllers
    controllers = [:]
    for index in open.keys.sorted() { open[index]?.close() }
  }

  public func links(of index: UInt16) throws(HCIError) -> [HCILink] { try controller(index).links() }

  public func send(
    _ value: ATTNotification, to address: BluetoothAddress, on index: UInt16,
    then: @escaping @LoopActor (RawOutcome) -> Void
  ) -> RawAcceptance {
    do throws(HCIError) {
      return try controller(index).send(value, to: address, then: then)
    } catch {
      EventLoop.shared.soon { [error] in then(.failed(error)) }
      return .accepted
    }
  }

  public func forget(_ address: BluetoothAddress, on index: UInt16) { controllers[index]?.forget(address) }

  public func onRoom(_ handler: @escaping @LoopActor (BluetoothAddress, UInt16) -> Void) -> Registration {
    lastHandler += 1
    let id = lastHandler
    handlers.append((id, handler))
    return Registration { [weak self] in self?.handlers.removeAll { $0.id == id } }
  }

  public func packetLimit(of index: UInt16) -> Int { ATTNotification.packetLimit(buffers(of: index)) }

  /// How much the controller `index` takes of LE data; the least that any does until it has said so.
  func buffers(of index: UInt16) -> LEBuffers { controllers[index]?.buffers ?? .least }

  private func controller(_ index: UInt16) throws(HCIError) -> RawController {
    if let controller = controllers[index] { return controller }
    let controller = try RawController(try makeSocket(index), index, scheduler, privilege)
    controller.onRoom = { [weak self] address in self?.tellRoom(address, index) }
    controller.onClosed = { [weak self, weak controller] in
      if let self, let controller, controllers[index] === controller { controllers[index] = nil }
    }
    controllers[index] = controller
    return controller
  }

  private func tellRoom(_ address: BluetoothAddress, _ index: UInt16) {
    for (id, handler) in handlers where handlers.contains(where: { $0.id == id }) { handler(address, index) }
  }
}
