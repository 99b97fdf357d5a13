import Hosting
import Tool

/// Entry of the list: a service, and its part of the command-line tool.
public struct ListedService: Sendable {
  public let kind: any Service.Type
  public let tool: ToolPart

  public init(_ kind: any Service.Type, tool: ToolPart) {
    self.kind = kind
    self.tool = tool
  }
}
