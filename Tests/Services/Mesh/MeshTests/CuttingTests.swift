import Air
import Bitchat
import Common
import Loop
import MeshStore
import Radio
import Sharing
import TestSupport
import Testing

@testable import Mesh

@Suite("Mesh links whose disconnection takes time")
struct CuttingTests {
  init() { EventLoop.shared.runInBackground() }

  /// A simulated device that closes a link two seconds after the request, as bluetoothd does.
  @LoopActor
  private final class SlowRadio: RadioDriver {
    private static let cutTime = Duration.seconds(2)
    private let radio: AirRadio
    private let time: VirtualTime
    private var cuts: [Registration] = []

    init(_ radio: AirRadio, _ time: VirtualTime) {
      (self.radio, self.time) = (radio, time)
    }

    var status: RadioStatus { radio.status }
    var tallies: [Tally] { radio.tallies }
    var delegate: (any RadioDriverDelegate)? {
      get { radio.delegate }
      set { radio.delegate = newValue }
    }
    var advertisingSlots: Int { radio.advertisingSlots }
    var deafness: String? { radio.deafness }

    func advertise(_ advertisement: Advertisement?, in slot: Int) { radio.advertise(advertisement, in: slot) }
    func serve(_ application: GATTApplication, as number: ApplicationID) { radio.serve(application, as: number) }
    func stopServing(_ number: ApplicationID) { radio.stopServing(number) }
    func isServed(_ number: ApplicationID) -> Bool { radio.isServed(number) }
    func listen(_ listening: Listening?) { radio.listen(listening) }
    func connect(
      to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
    ) throws(RadioError) -> any Link {
      try radio.connect(to: address, handler)
    }
    func notify(
      _ value: [UInt8], of characteristic: CharacteristicID, in application: ApplicationID, to recipients: Recipients
    ) -> Delivery {
      radio.notify(value, of: characteristic, in: application, to: recipients)
    }
    func origin(of link: LinkID) -> LinkOrigin { radio.origin(of: link) }
    func cut(_ link: LinkID) {
      cuts.append(time.schedule(after: Self.cutTime) { [radio] in radio.cut(link) })
    }
  }

  @Test("While a mesh link is being cut, received frames are ignored and none is sent")
  @LoopActor
  func slowCut() throws {
    let village = Village()
    let radio = village.air.addNode()
    let shared = SharedRadio(driver: SlowRadio(radio, village.time), scheduler: village.time)
    var settings = MeshSettings()
    settings.nickname = "node"
    let mesh = MeshService(
      radio: shared.tenant("mesh", share: MeshService.linkShare), scheduler: village.time, settings: settings,
      keeper: NodeStore(directory: "", scheduler: village.time, disk: village.time),
      clock: VirtualWallClock(village.time))
    let phone = Stranger(on: village, to: Village.House(radio, shared, mesh))
    mesh.start()
    #expect(village.wait(.seconds(5)) { phone.isLinked })
    phone.explore()
    #expect(village.wait(.seconds(5)) { phone.isExplored })
    phone.subscribe()
    #expect(village.wait(.seconds(5)) { !phone.heard.isEmpty })
    for number in 0..<200 { phone.write([0xFF, UInt8(number)], as: .command) }
    #expect(village.wait(.seconds(5)) { mesh.links.ports.values.contains(where: \.isCut) })
    let port = try #require(mesh.links.ports.values.first)
    let frames = mesh.node.engine?.counters.frames
    phone.heard = []
    village.time.advance(by: .milliseconds(1900))
    #expect(phone.isLinked && mesh.links.ports[port.id] === port, "the link is still there")
    #expect(mesh.node.engine?.counters.frames == frames && phone.heard.isEmpty && !port.isOpen)
    _ = try mesh.messages.say("is anybody there?")
    #expect(port.queue.isEmpty)
    village.time.advance(by: .seconds(1))
    #expect(!phone.isLinked && mesh.links.ports.isEmpty && phone.heard.isEmpty)
    mesh.stop()
    village.time.advance(by: .seconds(1))
  }
}
