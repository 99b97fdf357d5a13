import Config
import DBus
import Hosting
import Journal
import Loop
import Radio
import Store
import Tool

/// List of services, from which configuration, message catalog, D-Bus interfaces and commands of the tool are derived.
/// Both programs use `ServiceList.all`.
public struct ServiceList: Sendable {
  /// Version of both programs.
  public static let version = ManagerAdaptor.version

  public let services: [ListedService]
  private let tools: [ToolPart]

  /// - Parameter tools: parts of the command-line tool that belong to no service.
  public init(_ services: [ListedService], tools: [ToolPart] = []) {
    self.services = services
    self.tools = tools
  }

  public var kinds: [any Service.Type] { services.map(\.kind) }

  public var toolParts: [ToolPart] { services.map(\.tool) + tools + [ToolPart(codes: codes)] }

  /// The meaning of each counter, by interface and name.
  public var counterMeanings: [String: [String: String]] {
    ([CounterMeanings.house] + toolParts.compactMap(\.counters)).reduce(into: [:]) { all, counters in
      all[counters.interface, default: [:]].merge(counters.meanings) { $1 }
    }
  }

  /// The messages of the journal and the errors of stores, for `earshot explain`.
  private var codes: [CodeMeaning] {
    messages.map { message in
      // The catalog's text has line breaks of its own.
      let text = message.explanation.split(whereSeparator: \.isNewline).joined(separator: " ")
      return CodeMeaning(
        message.name, aliases: [message.hex], kind: "message of the journal", "\(message.subject). \(text)")
    } + StoreError.Reason.allCases.map(StoreCodes.meaning)
  }

  /// Defaults of the daemon and of all services.
  public var configuration: Configuration {
    Configuration(
      of: "earshotd, Bluetooth proximity services", HouseSettings.sections + kinds.flatMap { $0.sections })
  }

  /// Every journal message ID of the daemon and its services, each listed once.
  public var messages: [MessageID] {
    var seen: Set<MessageID> = []
    return (MessageID.house + kinds.flatMap { $0.messages }).filter { seen.insert($0).inserted }
  }

  /// The name of each message, by its ID.
  public var messageNames: [String: String] {
    Dictionary(messages.map { ($0.hex, $0.name) }, uniquingKeysWith: { first, _ in first })
  }

  /// D-Bus objects of the daemon and its services, for documentation.
  ///
  /// - Parameters:
  ///   - radio: any radio; it is not used.
  ///   - scheduler: any scheduler; it is not used.
  @LoopActor
  public func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject] {
    let manager = ManagerAdaptor.interface(radio, services: [], calls: { [] })
    return [DescribedObject(ManagerAdaptor.path.string, manager)]
      + kinds.flatMap { $0.objects(radio: radio, scheduler: scheduler) }
  }

  /// Interfaces of these objects, each once.
  @LoopActor
  public func interfaces(radio: any Radio, scheduler: any Scheduler) -> [Interface] {
    var seen: Set<String> = []
    return objects(radio: radio, scheduler: scheduler).map(\.interface).filter { seen.insert($0.name).inserted }
  }
}

/// Entry of the list: a service, and its part of the command-line tool.
public struct ListedService: Sendable {
  public let kind: any Service.Type
  public let tool: ToolPart

  public init(_ kind: any Service.Type, tool: ToolPart) {
    self.kind = kind
    self.tool = tool
  }
}
