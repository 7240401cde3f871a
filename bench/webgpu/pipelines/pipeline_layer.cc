// A Vulkan layer that keeps what the driver compiled: each compute pipeline is made with a cache of
// its own, whose bytes go to $WEFT_PIPELINES/0000.bin, 0001.bin and so on. pipelines.mjs builds it,
// and reads NVIDIA's machine code out of these files.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

// Of the one device of the process.
struct Next {
  PFN_vkGetInstanceProcAddr of_instance = nullptr;
  PFN_vkGetDeviceProcAddr of_device = nullptr;
  PFN_vkCreateComputePipelines create_pipelines = nullptr;
  PFN_vkCreatePipelineCache create_cache = nullptr;
  PFN_vkGetPipelineCacheData read_cache = nullptr;
  PFN_vkDestroyPipelineCache destroy_cache = nullptr;
};
Next next;

// The loader's entry of a chain that says which layer comes next.
template <typename Info>
Info* FindLink(const void* chain, VkStructureType type) {
  auto* info = static_cast<Info*>(const_cast<void*>(chain));
  while (info != nullptr && (info->sType != type || info->function != VK_LAYER_LINK_INFO))
    info = static_cast<Info*>(const_cast<void*>(info->pNext));
  return info;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info,
                                              const VkAllocationCallbacks* allocator,
                                              VkInstance* instance) {
  auto* link = FindLink<VkLayerInstanceCreateInfo>(info->pNext,
                                                   VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  next.of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create =
      reinterpret_cast<PFN_vkCreateInstance>(next.of_instance(nullptr, "vkCreateInstance"));
  return create(info, allocator, instance);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical,
                                            const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* allocator,
                                            VkDevice* device) {
  auto* link =
      FindLink<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  next.of_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(of_instance(nullptr, "vkCreateDevice"));
  const VkResult result = create(physical, info, allocator, device);
  if (result != VK_SUCCESS) return result;
  const auto find = [device]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(next.of_device(*device, name));
  };
  find(next.create_pipelines, "vkCreateComputePipelines");
  find(next.create_cache, "vkCreatePipelineCache");
  find(next.read_cache, "vkGetPipelineCacheData");
  find(next.destroy_cache, "vkDestroyPipelineCache");
  return result;
}

void Keep(const std::vector<char>& bytes) {
  static std::atomic<int> count = 0;
  const char* folder = std::getenv("WEFT_PIPELINES");
  if (folder == nullptr) return;
  char name[16];
  std::snprintf(name, sizeof name, "/%04d.bin", count++);
  std::ofstream(std::string(folder) + name, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

VKAPI_ATTR VkResult VKAPI_CALL CreateComputePipelines(VkDevice device, VkPipelineCache,
                                                      uint32_t count,
                                                      const VkComputePipelineCreateInfo* infos,
                                                      const VkAllocationCallbacks* allocator,
                                                      VkPipeline* pipelines) {
  const VkPipelineCacheCreateInfo empty = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  VkPipelineCache cache = VK_NULL_HANDLE;
  if (next.create_cache(device, &empty, nullptr, &cache) != VK_SUCCESS)
    return VK_ERROR_OUT_OF_HOST_MEMORY;
  const VkResult result = next.create_pipelines(device, cache, count, infos, allocator, pipelines);
  size_t size = 0;
  next.read_cache(device, cache, &size, nullptr);
  std::vector<char> bytes(size);
  if (next.read_cache(device, cache, &size, bytes.data()) == VK_SUCCESS) Keep(bytes);
  next.destroy_cache(device, cache, nullptr);
  return result;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL FindOfDevice(VkDevice device, const char* name) {
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(FindOfDevice);
  if (std::strcmp(name, "vkCreateComputePipelines") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(CreateComputePipelines);
  return next.of_device(device, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL FindOfInstance(VkInstance instance, const char* name) {
  if (std::strcmp(name, "vkGetInstanceProcAddr") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(FindOfInstance);
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(FindOfDevice);
  if (std::strcmp(name, "vkCreateInstance") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(CreateInstance);
  if (std::strcmp(name, "vkCreateDevice") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(CreateDevice);
  return next.of_instance == nullptr ? nullptr : next.of_instance(instance, name);
}

}  // namespace

extern "C" VKAPI_ATTR VkResult VKAPI_CALL
weft_negotiate(VkNegotiateLayerInterface* version) {  // the manifest names it
  version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = FindOfInstance;
  version->pfnGetDeviceProcAddr = FindOfDevice;
  version->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
