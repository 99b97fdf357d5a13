import Air
import Config
import DBus
import Hosting
import Listing
import Loop
import Sharing

/// The program of the service: a daemon with the services of its list.
@main
struct Earshotd {
  static func main() {
    let list = ServiceList.all
    DaemonProgram(
      "earshotd", "Bluetooth proximity services on D-Bus.", tool: "earshot", busName: "org.earshot",
      version: ManagerAdaptor.version, defaults: list.configuration, files: .standard, messages: list.messages,
      check: { MemoryBudget.check($0) },
      problems: { configuration in list.kinds.flatMap { $0.problems(with: configuration) } },
      interfaces: { interfaces(of: list) },
      prepare: { configuration in
        // This precedes other threads, which would keep the capabilities that this thread gives up.
        let privileges = Privileges(configuration[RadioSettings.self])
        return { Daemon(list, $0, bus: $1, address: $2, privileges: privileges) }
      }
    ).main()
  }

  /// The D-Bus interfaces, generated from the descriptions of the objects.
  @LoopActor
  private static func interfaces(of list: ServiceList) -> [Interface] {
    let time = VirtualTime()
    let driver = AirSpace(scheduler: time, seed: 0).addNode()
    let radio = SharedRadio(driver: driver, scheduler: time).tenant("interfaces", share: .nothing)
    return list.interfaces(radio: radio, scheduler: time)
  }
}
